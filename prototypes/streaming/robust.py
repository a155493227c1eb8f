from bench import *
from engine import *
import sys
def err(W,A,S): return permutation_error(S,np.maximum(S@A.T@W.T,0))
which=sys.argv[1]
rng=np.random.default_rng(0)
if "o" in which:
    print("outliers, no horizon, T=1e5: error / clean error")
    for kind,d in (("sparse_uniform",3),("exponential",3),("odor",3),("half_normal",10),("odor",10)):
        S=random_sources(kind,105_000,d,rng=1); A=rng.standard_normal((d,d)); X=S[:100_000]@A.T; S=S[-5000:]
        c=err(Stream(d).partial_fit(X).W,A,S); o=[]
        for pos in (0,1,5,50,500,50_000,-1):
            row=[]
            for f in (10,1e3,1e6,1e12):
                Z=X.copy()
                if pos>=0: Z[pos]=X[pos+1]*f if not X[pos].any() else X[pos]*f
                else: Z[500::1000]*=f
                row.append(f"{err(Stream(d).partial_fit(Z).W,A,S)/c:.2g}")
            o.append(f"{'1/1000' if pos<0 else pos}: "+" ".join(row))
        # random direction
        row=[]
        for f in (10,1e3,1e6,1e12):
            Z=X.copy(); Z[500::1000]=np.random.default_rng(5).standard_normal(Z[500::1000].shape)*f*X.std(); row.append(f"{err(Stream(d).partial_fit(Z).W,A,S)/c:.2g}")
        o.append("1/1000 gaussian: "+" ".join(row))
        print(kind,d,f"clean {c:.1e} |"," | ".join(o),flush=True)
def stretch(kind,d,h,make,runs=6,k=None,after=5):
    clean=[];bad=[];k=k or d
    for r in range(runs):
        g=np.random.default_rng([r,d]); S=random_sources(kind,20*h+5000,d,rng=g); A=g.standard_normal((k,d)); X=S@A.T
        m=Stream(d,h,seed=r).partial_fit(X[:10*h]); clean.append(err(m.W,A,S[-5000:]))
        m.partial_fit(make(X,h,g,m)); 
        mid=err(m.W,A,S[-5000:])
        m.partial_fit(X[10*h:(10+after)*h]); bad.append(err(m.W,A,S[-5000:]))
    return clean,bad,m
def show(name,kind,d,h,make,**kw):
    c,b,m=stretch(kind,d,h,make,**kw); print(f"{name} {kind} d={d} h={h}: clean median {np.median(c):.1e} after: median {np.median(b):.1e} worst {max(b):.1e} ratio worst/clean median {max(b)/np.median(c):.2f} restarts {m.state.clock[rule.RESTARTS]:.0f}",flush=True)
if "z" in which:
    for kind,d,h in (("sparse_uniform",3,1000),("exponential",5,10_000),("odor",3,1000)):
        for n in (1,10,100,1000):
            if n*h>2e6: continue
            show(f"zeros {n} horizons",kind,d,h,lambda X,h,g,m: np.zeros((n*h,X.shape[1])))
            show(f"frozen {n} horizons",kind,d,h,lambda X,h,g,m: np.repeat(X[10*h-1:10*h],n*h,0))
        show("noise 1e-3, 10 horizons",kind,d,h,lambda X,h,g,m: 1e-3*g.standard_normal((10*h,X.shape[1])))
        show("gain x 1e-3, 10 h",kind,d,h,lambda X,h,g,m: 1e-3*X[:10*h])
        show("gain x 1e3, 10 h",kind,d,h,lambda X,h,g,m: 1e3*X[:10*h])
    for n in (1,10,100): 
        def fr(X,h,g,m):
            Z=np.tile(X[:h],(n,1)); Z[:,0]=X[0,0]; return Z
        for kind,d,h in (("sparse_uniform",3,1000),("exponential",5,10_000)):
            show(f"one channel frozen {n} h",kind,d,h,fr); show(f"one channel frozen {n} h, k=2d",kind,d,h,fr,k=2*d)
    print("a channel that starts late, no horizon, T=2e5 in all")
    for kind,d in (("sparse_uniform",3),("exponential",5)):
        for late in (100,1000,10_000):
            o=[]
            for r in range(5):
                g=np.random.default_rng([r,d]); S=random_sources(kind,205_000,d,rng=g); A=g.standard_normal((d,d)); X=S@A.T; Z=X.copy(); Z[:late,0]=0
                o.append(err(Stream(d,seed=r).partial_fit(Z[:200_000]).W,A,S[-5000:])/err(Stream(d,seed=r).partial_fit(X[:200_000]).W,A,S[-5000:]))
            # with horizon 10000
            o2=[]
            for r in range(5):
                g=np.random.default_rng([r,d]); S=random_sources(kind,75_000,d,rng=g); A=g.standard_normal((d,d)); X=S@A.T; Z=X.copy(); Z[:late,0]=0
                o2.append(err(Stream(d,10_000,seed=r).partial_fit(Z[:50_000+late]).W,A,S[-5000:])/err(Stream(d,10_000,seed=r).partial_fit(X[:50_000+late]).W,A,S[-5000:]))
            print(kind,d,late,"ratio no horizon"," ".join(f"{x:.2g}" for x in o)," h=1e4, 5 h later:"," ".join(f"{x:.2g}" for x in o2),flush=True)
if "a" in which:
    for kind in ("sparse_uniform","exponential","half_normal","odor"):
        for d,h in ((3,1000),(5,3000),(10,10_000)):
            c=[];b=[];b1=[];rs=[]
            for r in range(10):
                g=np.random.default_rng([r,d,3]); S=random_sources(kind,15*h+5000,d,rng=g); A=g.standard_normal((d,d)); B=g.standard_normal((d,d))
                m=Stream(d,h,seed=r).partial_fit(S[:10*h]@A.T); c.append(err(m.W,A,S[-5000:]))
                m.partial_fit(S[10*h:11*h]@B.T); b1.append(err(m.W,B,S[-5000:]))
                m.partial_fit(S[11*h:15*h]@B.T); b.append(err(m.W,B,S[-5000:])); rs.append(int(m.state.clock[rule.RESTARTS]))
            print("abrupt",kind,d,h,f"clean {np.median(c):.1e}/{max(c):.1e} 1 h later {np.median(b1):.1e}/{max(b1):.1e} 5 h later {np.median(b):.1e}/{max(b):.1e} within 3x: {np.mean(np.array(b)<3*np.median(c)):.0%} restarts {rs}",flush=True)
