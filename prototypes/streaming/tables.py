from bench import *
from engine import *
from bionica.metrics import error_curve, sinr
import sys
def held(W,X,S): return permutation_error(S[-H:],np.maximum(X[-H:]@W.T,0))
w=sys.argv[1]
if "f" in w:
    for d,name in ((3,"d3"),(10,"d10")):
        r=[]
        for seed in range(10):
            S=sparse_uniform(100_000,d,rng=seed); X=S@paper_mixing(name).T; Y=Stream(d,seed=seed).partial_fit(X,True); c=error_curve(S,Y); r.append([c[99],c[999],c[9999],c[-1],permutation_error(S[-10000:],Y[-10000:])])
        print(f"fig4 d={d}: t=100/1e3/1e4/1e5/last tenth, mean of 10:"," ".join(f"{x:.2g}" for x in np.mean(r,0)),"worst at 1e5",f"{np.max(np.array(r)[:,3]):.2g}",flush=True)
if "n" in w:
    for d,kind,snr in [(5,k,s) for k in KINDS for s in (20,30)]+[(10,"half_normal",20),(10,"sparse_uniform",30)]:
        o=[]
        for seed in range(2):
            X,S,key=noisy(d,kind,snr,seed); b=batch(key,X,S); m=Stream(d,seed=seed).partial_fit(X[:-H]); o.append((held(m.W,X,S)/b,held(m.V,X,S)/b))
        print(f"noise {kind} d={d} k={2*d} {snr} dB: batch {b:.1e} ratios W/V "+" ".join(f"{a:.3f}/{c:.2f}" for a,c in o),flush=True)
    for seed in range(3):
        X,S,key=noisy(5,"copula",30,seed); m=Stream(5,seed=seed).partial_fit(X[:-H]); print(f"copula rho=0 30 dB: SINR W {sinr(S[-H:],np.maximum(X[-H:]@m.W.T,0)):.2f} V {sinr(S[-H:],np.maximum(X[-H:]@m.V.T,0)):.2f} dB ratio {held(m.W,X,S)/batch(key,X,S):.3f}",flush=True)
if "i" in w:
    from t2 import IM, images
    r=[]
    for o,(b,X,S) in enumerate(IM):
        m=Stream(3,seed=o).partial_fit(X); r.append((b,permutation_error(S,np.maximum(X@m.W.T,0)),permutation_error(S,np.maximum(X@m.V.T,0))))
    print("images shuffled 10 orders: batch median %.1e, W median %.1e worst %.1e, V median %.1e worst %.1e"%(np.median([x[0] for x in r]),np.median([x[1] for x in r]),max(x[1] for x in r),np.median([x[2] for x in r]),max(x[2] for x in r)))
    S=natural_images(size=None); r=[]
    for seed in range(10):
        A=np.random.default_rng(seed).standard_normal((3,3)); m=Stream(3,seed=seed).partial_fit(S@A.T); r.append((permutation_error(S,np.maximum(S@A.T@m.W.T,0)),permutation_error(S,np.maximum(S@A.T@m.V.T,0))))
    print("images raster: W median %.1e worst %.1e V median %.1e worst %.1e"%(np.median([x[0] for x in r]),max(x[0] for x in r),np.median([x[1] for x in r]),max(x[1] for x in r)),flush=True)
if "d" in w:
    for turn in (1e6,1e5):
        for kind in KINDS:
            n=int(min(turn*.3,200_000)); g=np.random.default_rng(0); S=random_sources(kind,n,3,rng=g); A=g.standard_normal((3,3)); a=2*np.pi*np.arange(n)/turn; M=S@A.T; c,s=np.cos(a),np.sin(a)
            X=np.column_stack([c*M[:,0]-s*M[:,1],s*M[:,0]+c*M[:,1],M[:,2]]); o=[]
            for h in (300,1000,2000,3000):
                m=Stream(3,h); Y=m.partial_fit(X,True); o.append(f"{h}: {permutation_error(S[-n//4:],Y[-n//4:]):.1e} ({m.state.clock[rule.RESTARTS]:.0f})")
            print(f"drift turn {turn:.0e} {kind}: running outputs, horizon: error (restarts)"," ".join(o),flush=True)
    # drift that leaves the first d directions
    g=np.random.default_rng(1); S=random_sources("exponential",60_000,3,rng=g); A,B=g.standard_normal((8,3)),g.standard_normal((8,3)); th=np.linspace(0,np.pi/2,60_000)[:,None]
    X=np.cos(th)*(S@A.T)+np.sin(th)*(S@B.T)
    for full in (64,4):
        m=Stream(3,1000,full=full); Y=m.partial_fit(X,True); print(f"k=8,d=3: A turns into another B over 60 horizons, C {'kept' if full==64 else 'not kept'}: error last tenth {permutation_error(S[-6000:],Y[-6000:]):.1e}",flush=True)
if "l" in w:
    for d in (50,100):
        for kind in ("sparse_uniform","exponential"):
            g=np.random.default_rng(d); T=200_000; S=random_sources(kind,T+H,d,rng=g); X=S@g.standard_normal((d,d)).T
            t=time.time(); b=batch(f"l{d}_{kind}",X,S); tb=time.time()-t; t=time.time(); m=Stream(d).partial_fit(X[:-H]); t=time.time()-t
            print(f"large d={d} {kind}: batch {b:.2e} ({tb:.0f} s) W {held(m.W,X,S)/b:.3f} V {held(m.V,X,S)/b:.3f} {t/T*1e6:.1f} us a sample",flush=True)
