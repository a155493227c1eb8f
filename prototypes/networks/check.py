from try1 import *
from naive import Natural
for alg in (1,2):
    for d,kind in ((3,"exponential"),(5,"sparse_uniform")):
        S,St,A=problem(d,kind,3,2000); X=S@A.T
        net=Net(alg,d,3,floor=0.0,change=0.0,watch=False); net.start(X[:net.n0]); 
        V=np.linalg.solve(net.M,net.W); nv=Natural(alg,net.ub,V,len(X[:net.n0]))
        # no guard acts in the first 99 samples; the guard `sign` every 100 is in the prototype alone
        T=99
        Y=net.partial_fit(X[:T],keep=True)
        Yn=np.array([nv.step(u) for u in X[:T]@net.F.T])
        print(alg,d,kind,"outputs %.1e W %.1e M %.1e R %.1e means %.1e"%(abs(Y-Yn).max(),abs(net.W-nv.W).max(),abs(net.M-nv.M).max(),abs(net.R-nv.R).max(),abs(net.Wm-nv.W_mean).max()))
