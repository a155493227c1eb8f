"""StreamingNICA line by line, one sample at a time, in NumPy: the specification of rule.py.

Model x = A s, s >= 0. V (d x k) is kept such that V C V' = I for the running covariance C, and turned so that v = V x >= 0.

    v = V x,  dv = v - v_bar,  q = |dv|^2,  E = d + |v_bar|^2                       (E is the mean of |v|^2)
    g = min(1, tau/q)^2                    weight of the sample; tau = 1.5 r2 min(r2/r1, 4)^2, r1 and r2 the running 98 % and
                                           99.5 % quantiles of q: r <- r (1 + s) if q > r, else r (1 - s p); s falls to 0.05
    age <- age + g,  n <- max(d + 6, age/4) while age <= 100 d, then n + g, never above the horizon;  w = g/n
    C <- (1-w)(C + w dx dx')  means  V <- f (I + beta dv dv') V,   f = (1-w)^-1/2,  beta = ((1 + w q)^-1/2 - 1)/q
    v_bar <- f (I + beta dv dv')(v_bar + w dv),   v <- f (I + beta dv dv') v
    p, e = max(v, 0), min(v, 0);  tan = |e|/(|v| + |p|)                             (of half the angle from v to p)
    tan <- tan (1 + 2 age/(age + 1000)/(1 + (2 tan/0.1)^2)) 1.3 |v|^2/(|v|^2 + 0.3 E) g (1 + m/10^4)^-1/2,   m <- m + 1, never above the horizon
    R = rotation by twice the arctan of this, from e/|e| towards p/|p|;   V <- R V,  v_bar <- R v_bar,  D <- D R'
    D <- (1-c) D + c I before that,   c = 6/(age + 5), never below 6/horizon.       Read out with polar(D) V.
"""
import numpy as np

GAMMA, EXTRA, RAMP, ANGLE, KAPPA, TURNS = 5.0, 2.0, 1000.0, 0.1, 0.3, 1e4
START, FORGET, N0, TINY = 100.0, 4.0, 6.0, 1e-3
STEP, P1, P2, SPARE = 0.05, 0.02, 0.005, 1.5
FLOOR, FULL, GROWTH = 1e-16, 64, 16.0


def polar(M):
    U, _, W = np.linalg.svd(M)
    return U @ W


class Naive:
    def __init__(self, d, k, rng, horizon=0, full=FULL):
        Q = np.linalg.qr(rng.standard_normal((k, d)))[0].T
        self.d, self.k, self.h = d, k, horizon
        self.tall, self.full = k > d, k <= full
        self.V = np.linalg.qr(rng.standard_normal((d, d)))[0] if self.tall else Q
        self.F = Q if self.tall else np.eye(k)
        self.C = np.zeros((k, k if self.full else d))
        self.D = np.eye(d)
        self.v_bar, self.u_bar, self.x_bar, self.x_last = np.zeros(d), np.zeros(d), np.zeros(k), None
        self.n = self.age = self.m = self.run = self.same = self.fast = self.slow = self.above = self.rest = self.power = 0.0
        self.level, self.due, self.r1, self.r2, self.restarts = 1.0, 0.0, 10.0 * d, 10.0 * d, 0

    def learn(self, x):
        """Take one sample in; returns the output that was made before learning."""
        d, h = self.d, self.h
        x = np.asarray(x, float)
        u = self.F @ x
        v = self.V @ u
        y = np.maximum(self.D @ v, 0)  # the average, without its polar projection: that is of second order

        # a frozen sensor
        self.run = self.run + 1 if self.x_last is not None and np.array_equal(x, self.x_last) else 0
        self.x_last = x
        if self.run * (1 - self.same) > 30:
            return y

        # the first sample that is not zero sets the scale
        if not self.power:
            if not v @ v > 0:
                return y
            self.power = v @ v / d
            v = v / np.sqrt(self.power)
            self.V = self.V / np.sqrt(self.power)
            self.due = 3.0 * d

        # its weight
        dv = v - self.v_bar
        q, energy = dv @ dv, d + self.v_bar @ self.v_bar
        fast = 1 / (100 + 10 * d)
        if self.run == 0 and v @ v > 0:
            self.level += max(fast, 3 / (self.age + 9)) * (min(v @ v / energy, 1) - self.level)
        if v @ v <= TINY * energy and 0 < self.age <= START * d:  # sparse sources, all silent: nothing to start from
            if self.level < 1e-4:
                self.rescale(v)
            return y
        tau = SPARE * self.r2 * np.clip(self.r2 / self.r1, 1, 4) ** 2
        g = min(1, tau / q) ** 2 if q > 0 else 1.0
        step = max(STEP, 1 / (1 + self.age / (30 * d)))
        self.above += fast * ((q > self.r1) - self.above)
        self.r1 *= 1 + step if q > self.r1 else 1 - step * P1
        self.r2 *= 1 + step if q > self.r2 else 1 - step * P2
        if self.tall:
            dx, du = x - self.x_bar, u - self.u_bar
            r = max(dx @ dx - du @ du, 1e-13 * dx @ dx)
            self.rest = self.rest or r
            g = min(g, min(1, 8 * SPARE * self.rest / r) ** 2) if r > 0 else g
            self.rest *= 1 + step if r > self.rest else 1 - step * P2
        self.age += g
        self.n = max(d + N0, self.age / FORGET) if self.age <= START * d else self.n + g
        if h:
            self.n = min(self.n, h)
        w = g / self.n
        self.same += w * ((self.run > 0) - self.same)
        if self.tall:
            self.u_bar = self.u_bar + w * du
            self.x_bar = self.x_bar + w * dx
            self.C = (1 - w) * (self.C + w * np.outer(dx, dx if self.full else du))

        # whitening
        f = 1 / np.sqrt(1 - w)
        B = f * (np.eye(d) + ((1 / np.sqrt(1 + w * q) - 1) / q if q > 0 else 0) * np.outer(dv, dv))
        self.V = B @ self.V
        v = B @ v
        self.v_bar = B @ (self.v_bar + w * dv)
        energy = d + self.v_bar @ self.v_bar
        p, e = np.maximum(v, 0), np.minimum(v, 0)
        negative = min(g * (e @ e) / energy, 1)

        # average and rotation
        c = (GAMMA + 1) / (self.age + GAMMA)
        if h:
            c = max(c, min(1, (GAMMA + 1) / h))
        self.D = (1 - c) * self.D + c * np.eye(d)
        flip = False
        if e @ e > 1e-28 * (v @ v) and p @ p > 0:
            self.m = min(self.m + 1, h) if h else self.m + 1
            a, b = p / np.sqrt(p @ p), e / np.sqrt(e @ e)
            tan = np.sqrt(e @ e) / (np.sqrt(v @ v) + np.sqrt(p @ p))
            size = (1 + KAPPA) * (v @ v) / (v @ v + KAPPA * energy)
            tan *= (1 + EXTRA * self.age / (self.age + RAMP) / (1 + (2 * tan / ANGLE) ** 2)) * size * g / np.sqrt(1 + self.m / TURNS)
            phi = 2 * np.arctan(tan)
            R = np.eye(d) + (np.cos(phi) - 1) * (np.outer(a, a) + np.outer(b, b)) + np.sin(phi) * (np.outer(a, b) - np.outer(b, a))
            self.V, self.v_bar, self.D = R @ self.V, R @ self.v_bar, self.D @ R.T
        elif not p @ p > 0 and v @ v > 0:
            flip, negative = True, 1.0

        # watch
        self.fast += fast * (negative - self.fast)
        self.slow += w * (min(negative, 2 * self.slow + 0.001) - self.slow)
        late = self.age > START * d + 200
        if self.level < 1e-4 and (h or self.age < 2 * START * d):
            self.rescale(v)
        elif h and late and (self.above > 0.09 or self.fast > 0.03 + 4 * self.slow):
            self.restart()
        elif self.age >= self.due:
            self.due = self.age + max(float(self.k), np.floor(self.n / (GROWTH if self.tall else 4)))
            self.floor()
            if self.tall:
                self.refresh()
        elif flip and self.v_bar.sum() < 0:
            self.V, self.v_bar, self.D = -self.V, -self.v_bar, np.eye(d)
        return y

    def rescale(self, v):
        energy = self.d + self.v_bar @ self.v_bar
        f = min(1 / np.sqrt(max(self.level, 1e-30) * energy / self.d), 1e15)
        self.V, self.v_bar, self.power, self.level = f * self.V, f * v, self.power / f**2, 1.0
        if self.tall:
            self.x_bar, self.C, self.rest = self.x_last, np.zeros_like(self.C), 0.0
            self.u_bar = self.F @ self.x_bar
        self.restart()

    def restart(self):
        self.age = self.m = self.slow = self.fast = self.above = 0.0
        self.restarts += 1
        self.due, self.D = 3.0 * self.d, np.eye(self.d)

    def floor(self):
        w = 0.25 * FLOOR * self.power
        for j in range(self.V.shape[1]):
            dv = self.V[:, j].copy()
            q = dv @ dv
            if w * q >= 1e-12:
                B = np.eye(self.d) + (1 / np.sqrt(1 + w * q) - 1) / q * np.outer(dv, dv)
                self.V, self.v_bar = B @ self.V, B @ self.v_bar

    def refresh(self):
        A = self.C @ (self.F.T @ self.V.T if self.full else self.V.T)
        Q, R = np.linalg.qr(A)
        if (np.diag(R) ** 2 <= 1e-26 * (A**2).sum(0)).any():
            return  # fewer than d directions so far
        Q = Q * np.sign(np.diag(R))
        FU = self.F @ Q
        V = self.V @ FU
        if not self.full:
            self.C = self.C @ FU
        M = Q.T @ self.C @ Q if self.full else Q.T @ self.C
        G = V @ ((M + M.T) / 2) @ V.T
        l, U = np.linalg.eigh(G)
        if not l[0] > 0:
            return
        self.V, self.F = (U / np.sqrt(l)) @ U.T @ V, Q.T
        self.u_bar = self.F @ self.x_bar
        self.v_bar = self.V @ self.u_bar

    @property
    def W(self):
        """What `transform` reads out with."""
        return polar(self.D) @ self.V @ self.F
