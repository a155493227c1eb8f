"""The natural networks, one sample at a time, line by line (plain NumPy, float64).

u = F x is given (F: fixed whitening of the first 100 + 20 d samples). State: R, u_bar, n, W, M (Algorithm 1: W_yn with M = W_yn'W_yn).
V = M^-1 W is what the network does while every neuron fires. `check.py` compares this with the Numba prototype.
"""
import numpy as np

C0, LAMBDA, KAPPA, ONE, GAMMA = 0.05, 1.8, 10.0, 1.0, 10.0


def nnqp(M, c):
    """z >= 0, M z - c >= 0, complementary: cyclic coordinate descent to the end."""
    z = np.maximum(np.linalg.solve(M, c), 0)
    for _ in range(20_000):
        old = z.copy()
        for i in range(len(z)):
            z[i] = max(0.0, z[i] + (c[i] - M[i] @ z) / M[i, i])
        if np.abs(z - old).max() <= 1e-15 * (1e-300 + np.abs(z).max()):
            break
    return z


class Natural:
    def __init__(self, alg, F_block_mean, V, n, horizon=0):
        d = len(V)
        self.alg, self.d, self.horizon = alg, d, horizon
        self.R, self.u_bar, self.n = np.eye(d), F_block_mean.copy(), n
        m = V @ self.u_bar
        M = np.eye(d) + (np.outer(m, m) if alg == 2 else 0)
        self.W = M @ V                     # W_xz, or W_xy
        self.W_zz = M if alg == 2 else None
        self.W_yn = np.eye(d) if alg == 1 else None
        self.turned = 0.0
        self.W_mean, self.M_mean = self.W.copy(), M.copy()

    @property
    def M(self):
        return self.W_zz if self.alg == 2 else self.W_yn.T @ self.W_yn

    def step(self, u):
        d, h = self.d, self.horizon
        # the neurons settle
        M, W = self.M, self.W
        V = np.linalg.solve(M, W)
        c = W @ u
        v = V @ u
        z = v.copy() if (v >= 0).all() else nnqp(M, c)
        # running mean and inverse covariance; the weight of a far sample is bounded
        self.n += 1
        w = 1 / (min(self.n, h) if h else self.n)
        du = u - self.u_bar
        q = du @ self.R @ du
        w *= min(1, (400 + 4 * d) / q) if q > 0 else 1
        self.R = np.linalg.inv((1 - w) * (np.linalg.inv(self.R) + w * np.outer(du, du)))
        self.u_bar = self.u_bar + w * du
        r = self.R @ du                    # = R_old du / (1 + w q) (1 - w)^-1 ; see below
        r *= 1 - w
        # pre and post of the Hebbian step
        if self.alg == 2:
            s, p = z, r + self.R @ self.u_bar
        else:
            s, p = z - V @ self.u_bar, r
        H = np.linalg.inv(M)
        qs = s @ H @ s
        a = C0 * qs / (1 + qs) ** 2
        # the exactly cancelling step: V <- V + a M_new^-1 s (p - V's)'
        self.W = (1 - a) * W + a * np.outer(s, p)
        if self.alg == 2:
            self.W_zz = (1 - a) * M + a * np.outer(s, s)
        else:                              # square root: M <- (1-a) M + a s s'
            g = self.W_yn @ H @ s
            kappa = a / (1 - a)
            beta = (np.sqrt(1 + kappa * qs) - 1) / qs if qs > 0 else 0.0
            self.W_yn = np.sqrt(1 - a) * (self.W_yn + beta * np.outer(g, s))
        # the turn: of v towards z, in their plane, on the left of the old V
        if (v < 0).any():
            if h:
                self.turned -= self.turned / h
            self.turned += 1
            lam = LAMBDA / np.sqrt(1 + self.turned / (1000 * d))
            zz = z @ z
            if zz > 0:
                e = v - z
                e = e - (e @ z) / zz * z
                size = np.linalg.norm(e)
                angle = np.arctan2(size, v @ z / np.sqrt(zz))
                angle *= lam / (1 + KAPPA * size**2 / zz) * zz / (ONE + zz)
                if size > 0:
                    a1, b1 = z / np.sqrt(zz), e / size
                    turn = (np.cos(angle) - 1) * (np.outer(a1, a1) + np.outer(b1, b1)) + np.sin(angle) * (np.outer(a1, b1) - np.outer(b1, a1))
                    self.W = self.W + self.M @ turn @ V
        # averages
        k = (GAMMA + 1) / (min(self.n, h) if h and self.n > h else self.n + GAMMA)
        k = min(1, k)
        self.W_mean += k * (self.W - self.W_mean)
        self.M_mean += k * (self.M - self.M_mean)
        return z
