import sys
from try1 import *
ds=eval(sys.argv[1]); seeds=eval(sys.argv[2]); T=int(float(sys.argv[3])); kinds=eval(sys.argv[4]) if len(sys.argv)>4 else KINDS
out=open(f"table_{'-'.join(map(str,ds))}_{T}.txt","w")
tot={1:[],2:[]}
for d in ds:
    rows={1:[],2:[]}
    for kind in kinds:
        line=f"d={d} {kind}: "
        for seed in seeds:
            S,St,A=problem(d,kind,100+seed,T); b=batch_error(d,kind,100+seed,T); X=S@A.T; Xt=St@A.T
            for alg in (1,2):
                net=Net(alg,d,seed); t=time.time(); net.partial_fit(X); t=time.time()-t
                e=err(St,net.transform(Xt)); rows[alg].append((e,e/b,t/T*1e6)); line+=("  %.1e|%.2f"%(b,e/b) if alg==1 else ",%.2f"%(e/b))
        print(line,file=out,flush=True)
    for alg in (1,2):
        r=np.array(rows[alg]); tot[alg].append(r)
        s="d=%d Alg %d: n=%d ratio median %.2f q95 %.2f max %.2f, share<=3 %.3f, max error %.1e, %.2f us/sample"%(d,alg,len(r),np.median(r[:,1]),np.quantile(r[:,1],.95),r[:,1].max(),(r[:,1]<=3).mean(),r[:,0].max(),np.median(r[:,2]))
        print(s,flush=True); print(s,file=out,flush=True)
