"""Prototype kernels: natural Algorithm 1 and 2 in one loop (alg = 1: centred, 2: uncentred)."""
import numpy as np
from numba import njit


@njit(cache=True, fastmath=False)
def settle(H, v, z, A, S, rhs, act):
    """NNQP: z >= 0, Mz - c >= 0, complementary, v = M^-1 c, H = M^-1. Block principal pivoting on the active (zero) set.
    z = v + H[:, A] w, with H_AA w = -v_A. Returns number of zeros forced (size of the active set)."""
    d = v.shape[0]
    viol = 0
    for i in range(d):
        act[i] = v[i] < 0
        viol += act[i]
        z[i] = v[i]
    if viol == 0:
        return 0
    fewest = d + 1
    patience = 3
    for it in range(200):
        f = 0
        for i in range(d):
            if act[i]:
                A[f] = i
                f += 1
        # Cholesky of H_AA
        for a in range(f):
            for b in range(a + 1):
                s = H[A[a], A[b]]
                for p in range(b):
                    s -= S[a, p] * S[b, p]
                if a == b:
                    S[a, a] = np.sqrt(max(s, 1e-300))
                else:
                    S[a, b] = s / S[b, b]
        for a in range(f):
            s = -v[A[a]]
            for p in range(a):
                s -= S[a, p] * rhs[p]
            rhs[a] = s / S[a, a]
        for a in range(f - 1, -1, -1):
            s = rhs[a]
            for p in range(a + 1, f):
                s -= S[p, a] * rhs[p]
            rhs[a] = s / S[a, a]
        for i in range(d):
            s = v[i]
            for a in range(f):
                s += H[i, A[a]] * rhs[a]
            z[i] = s
        for a in range(f):
            z[A[a]] = 0.0
        bad = 0
        last = -1
        k = 0
        size = 0.0
        for i in range(d):
            size = max(size, abs(v[i]))
        slack = 1e-12 * size
        for i in range(d):
            if act[i]:
                if rhs[k] < 0:
                    bad += 1
                    last = i
                k += 1
            elif z[i] < -slack:
                bad += 1
                last = i
        if bad == 0:
            break
        if bad < fewest:
            fewest = bad
            patience = 3
        else:
            patience -= 1
        if patience >= 0:
            k = 0
            for i in range(d):
                if act[i]:
                    if rhs[k] < 0:
                        act[i] = False
                    k += 1
                elif z[i] < -slack:
                    act[i] = True
        else:
            act[last] = not act[last]
    n = 0
    for i in range(d):
        if z[i] < 0:
            z[i] = 0.0
        n += act[i]
    return n


@njit(cache=True)
def frozen(X, last, run, longest, expiry, mask):
    """mask[t]: sample t is not learned from, because a channel is stuck: it has repeated itself to the last bit more than
    20 + 4 longest times, `longest` being its longest run before (a run counts as L at most). After `expiry` (> 0) repeats it
    is taken as it is, unless all channels are stuck. longest < 0: has never varied, is never stuck."""
    T, k = X.shape
    for t in range(T):
        stuck = False
        every = True
        for j in range(k):
            L = 20 + 4 * longest[j]
            if X[t, j] == last[j]:
                run[j] += 1
            else:
                if run[j] >= 0:
                    longest[j] = max(longest[j], min(run[j], L))
                run[j] = 0
                last[j] = X[t, j]
            if longest[j] >= 0:
                here = run[j] > L
                every &= here
                stuck |= here and not (expiry > 0 and run[j] > expiry)
        mask[t] = stuck or (every and run.max() > 20)


@njit(cache=True)
def learn(alg, U, mask, W, M, H, R, ub, Wm, Mm, count, Y, P, stats, blk, Cs, us):
    """One pass over U (T, d), in place. count: [n behind R, t, violators, since]. P: parameters
    0 c0        a = c0/(1+q) for all
    1 c1        total step for violators: lambda = c1 (annealed) : (a+s)/(1-a+a q) = lam/(1+q)
    2 m0        annealing count of c1: (1 + m/m0)^-1/2 ; 0 none
    3 gamma     averaging
    4 horizon   0 none
    5 qmax0, 6 qmax1: q_max = qmax0 + qmax1 d ; 0: none
    7 t0        c0 annealed (1+t/t0)^-1/2 ; 0 none
    8 mode      0: violators get larger a; 1: extra step s in W alone
    9 theta     M learns by c0 (1 - theta/q)_+/(1+q)
    10 floor    of C, in the coordinates of u
    11 keepR    1: p from R before the sample
    """
    T, d = U.shape
    c0, c1, m0, gamma, hor = P[0], P[1], P[2], P[3], P[4]
    qmax = P[5] + P[6] * d
    t0, mode, theta, floor = P[7], P[8], P[9], P[10]
    du = np.zeros(d); r = np.zeros(d); p = np.zeros(d); c = np.zeros(d); v = np.zeros(d); z = np.zeros(d); s_ = np.zeros(d)
    g = np.zeros(d); rb = np.zeros(d); m_ = np.zeros(d); pv = np.zeros(d)
    A = np.zeros(d, np.int64); S = np.zeros((d, d)); rhs = np.zeros(d); act = np.zeros(d, np.bool_)
    keep = Y.shape[0] > 0
    co = 0.0; si = 0.0
    for t in range(T):
        u = U[t]
        # ---- settle
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += W[i, j] * u[j]
            c[i] = s
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += H[i, j] * c[j]
            v[i] = s
        viol = settle(H, v, z, A, S, rhs, act)
        if keep:
            for i in range(d):
                Y[t, i] = z[i]
        if mask[t]:
            stats[5] += 1
            continue
        # ---- R, u_bar
        count[0] += 1
        count[1] += 1
        n = count[0]
        w = 1.0 / n
        if hor > 0 and n > hor:
            w = 1.0 / hor
        for j in range(d):
            du[j] = u[j] - ub[j]
        q = 0.0
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += R[i, j] * du[j]
            r[i] = s
            q += s * du[i]
        # ---- has the covariance changed? Cs, us: moments of the current block of B samples
        if P[14] > 0 and hor > 0:
            blk[0] += 1
            wb = 1.0 / blk[0]
            if qmax > 0 and q > qmax:
                wb *= qmax / q
            for i in range(d):
                pv[i] = u[i] - us[i]
            for i in range(d):
                us[i] += wb * pv[i]
                for j in range(d):
                    Cs[i, j] = (1 - wb) * (Cs[i, j] + wb * (pv[i] * pv[j]))
            if blk[0] >= max(100 + 20 * d, hor // 5):
                if n > hor / 2 and different(R, Cs, P[14]):
                    stats[4] += 1
                    restart(alg, W, M, H, R, ub, Wm, Mm, Cs, us)
                    count[0] = blk[0]
                    count[2] = 0
                    blk[0] = 0
                    continue
                blk[0] = 0
        ww = w
        if qmax > 0 and q > qmax:
            ww = w * qmax / q
            stats[0] += 1
        shrink = 1.0 / (1.0 + ww * q)
        grow = 1.0 / (1.0 - ww)
        f = np.sqrt(ww * shrink * grow)  # r_i r_j the same for i, j and j, i to the last bit: an antisymmetric part would grow
        for i in range(d):
            pv[i] = f * r[i]
        for i in range(d):
            for j in range(d):
                R[i, j] = grow * R[i, j] - pv[i] * pv[j]
        for j in range(d):
            ub[j] += ww * du[j]
        if P[11] == 0:
            for i in range(d):
                r[i] *= shrink
        # ---- pre and post
        if alg == 2:
            for i in range(d):
                s = 0.0
                for j in range(d):
                    s += R[i, j] * ub[j]
                p[i] = r[i] + s
                s_[i] = z[i]
        else:
            for i in range(d):
                s = 0.0
                for j in range(d):
                    s += W[i, j] * ub[j]
                c[i] = s
            for i in range(d):
                s = 0.0
                for j in range(d):
                    s += H[i, j] * c[j]
                m_[i] = s
                s_[i] = z[i] - s
                p[i] = r[i]
        qs = 0.0
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += H[i, j] * s_[j]
            g[i] = s
            qs += s * s_[i]
        count[3] += qs
        cc = c0
        if t0 > 0:
            cc = c0 / np.sqrt(1.0 + count[1] / t0)
        lam = cc
        if viol > 0:
            if hor > 0:
                count[2] -= min(count[2], hor * count[2] / hor / hor)
            count[2] += 1
            lam = c1
            if m0 > 0:
                lam = c1 / np.sqrt(1.0 + count[2] / m0)
            lam = max(lam, cc)
        shape = 1.0
        if theta > 0:
            shape = qs / (theta + qs)
        if mode == 0:
            a = lam * shape / (1.0 + qs)
            s = 0.0
        else:
            a = cc * shape / (1.0 + qs)
            if mode >= 2:
                s = 0.0
            else:
              s = max(0.0, lam / (1.0 + qs) * (1.0 - a + a * qs) - a)
        if mode >= 2:
            s = 0.0
            if viol > 0:
                # V <- V + lam (y e' [- e y'])V / (1 + y'y), e = v - y, in the weights: W <- W + M_new dV
                if t >= 0:
                    yy = 0.0
                    for i in range(d):
                        yy += z[i] * z[i]
                    if mode >= 3:
                        for i in range(d):
                            yy += (1.0 + P[13]) * (v[i] - z[i]) ** 2
                    s = lam / (P[12] + yy)
        elif s > 0:
            for j in range(d):
                pv[j] = p[j]
            for i in range(d):
                for j in range(d):
                    pv[j] -= W[i, j] * g[i]
        if mode >= 2 and s > 0:
            for j in range(d):
                m_[j] = v[j] - z[j]
            if mode == 5:
                # an exact turn of v towards z, in their plane
                zn = 0.0
                ez = 0.0
                for j in range(d):
                    zn += z[j] * z[j]
                    ez += z[j] * m_[j]
                if zn > 0:
                    en = 0.0
                    for j in range(d):
                        m_[j] -= ez / zn * z[j]
                        en += m_[j] * m_[j]
                    en = np.sqrt(en)
                    angle = np.arctan2(en, (zn + ez) / np.sqrt(zn))
                    ta = en * en / zn
                    angle *= lam / (1.0 + P[13] * ta) * zn / (P[12] + zn)
                    co = np.cos(angle) - 1.0
                    si = np.sin(angle)
                    for j in range(d):
                        z[j] /= np.sqrt(zn)
                        if en > 0:
                            m_[j] /= en
                else:
                    s = 0.0
                    co = 0.0
                    si = 0.0
            # pv = V'e = W'H e ; rb = V'z
            for i in range(d):
                x = 0.0
                y = 0.0
                for j in range(d):
                    x += H[i, j] * m_[j]
                    y += H[i, j] * z[j]
                rb[i] = x
                c[i] = y
            for j in range(d):
                pv[j] = 0.0
                du[j] = 0.0
            for i in range(d):
                for j in range(d):
                    pv[j] += W[i, j] * rb[i]
                    du[j] += W[i, j] * c[i]
            if mode == 4:
                for i in range(d):
                    y = 0.0
                    for j in range(d):
                        y += R[i, j] * u[j]
                    du[i] = y
        for i in range(d):
            x = a * s_[i]
            for j in range(d):
                W[i, j] = (1 - a) * W[i, j] + x * p[j]
            if s > 0 and mode < 2:
                y = s * s_[i]
                for j in range(d):
                    W[i, j] += y * pv[j]
            for j in range(d):
                M[i, j] = (1 - a) * M[i, j] + a * (s_[i] * s_[j])
        if mode >= 2 and s > 0:
            for i in range(d):
                x = 0.0
                y = 0.0
                for j in range(d):
                    x += M[i, j] * z[j]
                    y += M[i, j] * m_[j]
                x *= s
                y *= s
                if mode == 2:
                    y = 0.0
                if mode == 4:
                    x = 0.0
                if mode == 5:
                    x /= s
                    y /= s
                    for j in range(d):
                        W[i, j] += co * (x * du[j] + y * pv[j]) + si * (x * pv[j] - y * du[j])
                else:
                  for j in range(d):
                    W[i, j] += x * pv[j] - y * du[j]
        grow = 1.0 / (1.0 - a)
        f = np.sqrt(a * grow / (1 - a + a * qs))
        for i in range(d):
            g[i] *= f
        for i in range(d):
            for j in range(d):
                H[i, j] = grow * H[i, j] - g[i] * g[j]
        # ---- averages
        wa = (gamma + 1.0) / (n + gamma)
        if hor > 0 and n > hor:
            wa = min(1.0, (gamma + 1.0) / hor)
        for i in range(d):
            for j in range(d):
                Wm[i, j] += wa * (W[i, j] - Wm[i, j])
                Mm[i, j] += wa * (M[i, j] - Mm[i, j])
        if count[1] % 100 == 0:
            inspect(W, M, H, R, ub, Wm, Mm, floor * w * 100, stats, count[1] % 1000 == 0, count)


@njit(cache=True)
def different(R, Cs, most):
    d = len(R)
    lam = np.linalg.eigvalsh(Cs)
    if not lam[0] > 1e-10 * lam[d - 1]:  # a block without full rank is no start
        return False
    up = 0.0
    for i in range(d):
        for j in range(d):
            up += R[i, j] * Cs[i, j] / d
    if up > most:
        return True
    size = np.trace(Cs) / d
    if not size > 0:
        return False
    C = np.linalg.inv(R)
    return np.trace(np.linalg.solve(Cs + 1e-12 * size * np.eye(d), C)) / d > most


@njit(cache=True)
def restart(alg, W, M, H, R, ub, Wm, Mm, C, us):
    """The covariance of the input is C now: V keeps its rotation, R <- C^-1, V <- (V C V')^-1/2 V, M and W accordingly."""
    d = len(us)
    C = C + 1e-12 * np.trace(C) / d * np.eye(d)
    V = H @ W
    R[:] = np.linalg.inv(C)
    R[:] = 0.5 * (R + R.T)
    ub[:] = us
    lam, Q = np.linalg.eigh(V @ C @ V.T)
    lam = np.maximum(lam, 1e-14 * lam[d - 1])
    V = (Q / np.sqrt(lam)) @ Q.T @ V
    M[:] = np.eye(d)
    m = V @ us
    for i in range(d):
        if m[i] < 0:
            V[i] = -V[i]
            m[i] = -m[i]
    if alg == 2:
        for i in range(d):
            for j in range(d):
                M[i, j] += m[i] * m[j]
    H[:] = np.linalg.inv(M)
    W[:] = M @ V
    Wm[:] = W
    Mm[:] = M


@njit(cache=True)
def inspect(W, M, H, R, ub, Wm, Mm, fl, stats, fresh, count):
    d = len(ub)
    size = count[3] / (100 * d)  # of M against the outputs: 1 where M is their second moment
    count[3] = 0.0
    if 0 < size < 0.05:
        size = max(size, 0.01)
        W *= size
        M *= size
        H /= size
    if fl > 0:
        R -= fl * (R @ R)
    # spectrum of M, keeping V
    top = 0.0
    tr = 0.0
    for i in range(d):
        top = max(top, H[i, i])
        tr += M[i, i] / d
    if not top * tr < 1e3 or not tr < 1e6 or not tr > 1e-6:
        V = H @ W
        if not np.isfinite(V).all():
            stats[2] += 1
            return
        lam, Q = np.linalg.eigh(M)
        big = lam[d - 1]
        if not (big > 1e-6 and big < 1e6):
            lam /= big
            big = 1.0
        for i in range(d):
            lam[i] = max(lam[i], 1e-2 * big)
        M[:] = (Q * lam) @ Q.T
        H[:] = (Q / lam) @ Q.T
        W[:] = M @ V
        stats[1] += 1
    elif fresh:
        H[:] = np.linalg.inv(M)
    # signs
    m = H @ (W @ ub)
    for i in range(d):
        if m[i] < 0:
            stats[3] += 1
            W[i] = -W[i]
            M[i] = -M[i]
            M[:, i] = -M[:, i]
            H[i] = -H[i]
            H[:, i] = -H[:, i]
            # the averages were of another output: start them anew there
            Wm[:] = W
            Mm[:] = M
            

@njit(cache=True)
def readout(W, M, U):
    d = len(W)
    H = np.linalg.inv(M)
    V = H @ W
    Y = np.empty_like(U)
    A = np.zeros(d, np.int64); S = np.zeros((d, d)); rhs = np.zeros(d); act = np.zeros(d, np.bool_)
    for t in range(len(U)):
        settle(H, V @ U[t], Y[t], A, S, rhs, act)
    return Y


class Net:
    """Fixed F from a first block of 100 + 20 d samples (learned from as well), random rotation."""

    def __init__(self, alg, d, seed, n0=None, **kw):
        self.alg, self.d, self.seed = alg, d, seed
        self.P = dict(DEFAULTS[alg], **kw)
        self.n0 = n0 or 100 + 20 * d
        self.ready = False

    def params(self):
        p = self.P
        d = self.d
        val = lambda x: x(d) if callable(x) else x
        return np.array([val(p[k]) for k in ORDER], float)

    def start(self, B):
        d = self.d
        rng = np.random.default_rng(self.seed)
        # robust: every mixture over the median of its nonzero sizes; rows far beyond the median row are left out
        size = np.abs(B)
        typical = np.array([np.median(c[c > 0]) if (c > 0).any() else 1.0 for c in size.T])
        nrm = np.linalg.norm(B / typical, axis=1)
        med = np.median(nrm[nrm > 0]) if (nrm > 0).any() else 1.0
        B = B[nrm <= 30 * med]
        mu = B.mean(0)
        C = (B - mu).T @ (B - mu) / len(B)
        lam, E = np.linalg.eigh(C)
        lam, E = lam[::-1][:d], E[:, ::-1][:, :d]
        seen = lam > 1e-10 * max(lam[0], 1e-300)
        lam = np.where(seen, lam, lam[seen].mean() if seen.any() else 1.0)
        self.F = E.T / np.sqrt(lam)[:, None]
        Ub = B @ self.F.T
        V = np.linalg.qr(rng.standard_normal((d, d)))[0]
        ub = Ub.mean(0)
        V[V @ ub < 0] *= -1
        self.R = np.eye(d)
        self.ub = ub.copy()
        if self.alg == 2:
            m = V @ ub
            self.M = np.eye(d) + np.outer(m, m)
        else:
            self.M = np.eye(d)
        self.W = self.M @ V
        self.H = np.linalg.inv(self.M)
        self.Wm, self.Mm = self.W.copy(), self.M.copy()
        self.count = np.array([len(B), 0, 0, 0], float)
        self.stats = np.zeros(6)
        self.blk, self.Cs, self.us = np.zeros(8), np.zeros((d, d)), np.zeros(d)
        self.ready = True

    def partial_fit(self, X, keep=False):
        if not self.ready:
            self.start(X[: self.n0])
        U = np.ascontiguousarray(X @ self.F.T)
        Y = np.empty((len(U), self.d)) if keep else np.empty((0, self.d))
        mask = np.zeros(len(X), np.bool_)
        h = self.P["horizon"]
        if self.P.get("watch", True):
            if not hasattr(self, "last"):
                self.last, self.run, self.longest = np.full(X.shape[1], np.nan), np.full(X.shape[1], -1), np.full(X.shape[1], -1)
            frozen(np.ascontiguousarray(X), self.last, self.run, self.longest, 10 * h, mask)
        learn(self.alg, U, mask, self.W, self.M, self.H, self.R, self.ub, self.Wm, self.Mm, self.count, Y, self.params(), self.stats, self.blk, self.Cs, self.us)
        return Y

    def transform(self, X, mean=True):
        W, M = (self.Wm, self.Mm) if mean else (self.W, self.M)
        if not (np.isfinite(W).all() and np.isfinite(M).all()):
            return np.full((len(X), self.d), np.inf)
        return readout(W, M, np.ascontiguousarray(X @ self.F.T))


ORDER = ["c0", "c1", "m0", "gamma", "horizon", "qmax0", "qmax1", "t0", "mode", "theta", "floor", "keepR", "one", "kappa", "change"]
base = dict(c0=0.05, c1=1.8, m0=lambda d: 1000 * d, gamma=10, horizon=0, qmax0=400, qmax1=4, t0=0, mode=5,
            theta=1.0, floor=1e-6, keepR=0, one=1.0, kappa=10.0, change=3.0)
DEFAULTS = {1: dict(base), 2: dict(base)}
