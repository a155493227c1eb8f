import sys
from try1 import *
def scenario(alg,d,kind,h,seed,name,par,kw={}):
    """error (mean readout) 5 horizons (or 1e5 samples without one) after the disturbance, over the clean error at the same time"""
    H=h or 20000
    rng=np.random.default_rng([seed,d,7])
    A=rng.standard_normal((d,d)); A2=rng.standard_normal((d,d))
    before=max(10*H,30000) if h else 50000
    after=5*H
    S=random_sources(kind,before+after,d,rng=rng); St=random_sources(kind,5000,d,rng=rng)
    X=S@A.T
    segs=[]
    Aend=A
    if name=="first": X[par]*=1e6
    if name=="one": X[before]*=par
    mid=np.zeros((0,d))
    if name=="many":
        Sm=random_sources(kind,2*H,d,rng=rng); mid=Sm@A.T; mid[rng.random(len(mid))<1e-3]*=par
    if name=="zeros": mid=np.zeros((int(par*H),d))
    if name=="frozen": mid=np.tile(X[before-1],(int(par*H),1))
    if name=="channel":
        Sm=random_sources(kind,int(par*H),d,rng=rng); mid=Sm@A.T; mid[:,0]=X[before-1,0]
    if name=="gain":
        X=X.copy(); X[before:]*=par; Aend=A*par
    if name=="late": X[:2*H,0]=0
    if name=="abrupt": X[before:]=S[before:]@A2.T; Aend=A2
    net=Net(alg,d,seed,horizon=h,**kw)
    net.partial_fit(X[:before])
    if len(mid):
        for i in range(0,len(mid),100000): net.partial_fit(mid[i:i+100000])
    net.partial_fit(X[before:])
    e=err(St,net.transform(St@Aend.T))
    ref=Net(alg,d,seed,horizon=h,**kw)
    Sr=np.vstack([S,random_sources(kind,len(mid),d,rng=rng)]) if 0<len(mid)<200000 else S
    ref.partial_fit(Sr@A.T)
    c=err(St,ref.transform(St@A.T))
    return e,c
CASES=[("first",5),("first",500)]+[("one",10.**k) for k in (1,1.5,2,3,6,12)]+[("many",10.**k) for k in (1,2,6,12)]+[("zeros",.03),("zeros",1),("zeros",10),("zeros",100),("frozen",.03),("frozen",1),("frozen",10),("channel",.03),("channel",1),("channel",10),("gain",1e-2),("gain",1e2),("late",0),("abrupt",0)]
if __name__=="__main__":
    kw=eval(sys.argv[1]) if len(sys.argv)>1 else {}
    sel=eval(sys.argv[2]) if len(sys.argv)>2 else CASES
    for alg in (2,1):
        for name,par in sel:
            o=[]
            for d,kind,h in ([] if name in ('many','zeros','frozen','channel','gain','late','abrupt') else [(3,"sparse_uniform",0)])+[(3,"exponential",1000),(5,"half_normal",10000),(10,"sparse_uniform",10000),(3,"odor",2000)]:
                if name=="zeros" and par==100 and h==0: pass
                for seed in range(2):
                    e,c=scenario(alg,d,kind,h,seed,name,par,kw); o.append((e/c,c))
            print(alg,name,"%.2g"%par," ".join("%.2f"%x[0] for x in o), "  clean "+" ".join("%.0e"%x[1] for x in o[::2]) if name=="first" else "",flush=True)
