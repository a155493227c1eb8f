from bench import *
from engine import *
from naive import Naive
def compare(name,d,X,h=0,full=64,seed=0):
    nv=Naive(d,X.shape[1],np.random.default_rng(seed),h,full); s=Stream(d,h,seed,full)
    Y=s.partial_fit(X,True); Z=np.array([nv.learn(x) for x in X])
    rel=lambda a,b: abs(a-b).max()/max(abs(b).max(),1e-300)
    s2=Stream(d,h,seed,full); c=0
    for n in (1,7,100,3,1000,13,10**9):
        s2.partial_fit(X[c:c+n]) if c<len(X) else None; c+=n
    same=all(np.array_equal(a,b,equal_nan=True) for a,b in zip(s.state,s2.state))
    print(f"{name}: outputs {rel(Y,Z):.1e} V {rel(s.V,nv.V@nv.F):.1e} W {rel(s.W,nv.W):.1e} restarts {s.state.clock[rule.RESTARTS]:.0f} {nv.restarts} chunks same bits {same}",flush=True)
g=np.random.default_rng(0)
for kind,d,k,h,full,T in (("sparse_uniform",3,3,0,64,5000),("exponential",3,3,0,64,5000),("odor",3,6,0,64,5000),("half_normal",5,10,0,64,5000),("exponential",4,12,0,8,5000),("sparse_uniform",3,3,500,64,5000),("odor",3,6,500,64,5000),("gamma",1,1,0,64,2000),("gamma",1,3,0,64,2000),("exponential",10,10,0,64,5000)):
    S=random_sources(kind,T,d,rng=1); X=S@g.standard_normal((d,k))
    compare(f"{kind} d={d} k={k} h={h}",d,X,h,full)
S=random_sources("sparse_uniform",6000,3,rng=1); X=S@g.standard_normal((3,3)); Z=X.copy(); Z[0]*=1e9; Z[100]*=1e6; Z[2000:2500]=0; Z[3000:]=S[3000:]@g.standard_normal((3,3)); compare("outliers, zeros, abrupt",3,Z,500); Z=Z+.03*g.standard_normal(Z.shape); compare("with noise",3,Z,500); compare("float32",3,Z.astype(np.float32),500)
