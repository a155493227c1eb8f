"""What `bionica.reference`, the paper in NumPy, does not have: the rest of the package
transcribed line by line, and oracles.

Shares no code with the compiled networks. Mixtures are the rows of X.
"""

import itertools
import math

import numpy as np
from quadprog import solve_qp

from bionica.circuits import reference

# --- neurons at rest


def settle_qp(M, c):
    """min z'Mz/2 - c'z over z >= 0, by quadprog, as in the authors' code."""
    return np.maximum(solve_qp(M, c, np.eye(len(c)), np.zeros(len(c)))[0], 0)


def settle_lcp(M, c):
    """z >= 0, Mz - c >= 0, complementary, for M that need not be symmetric; by
    enumeration.
    """
    d = len(c)
    best = np.zeros(d)
    least = np.inf
    for size in range(d + 1):
        for firing in itertools.combinations(range(d), size):
            F = list(firing)
            z = np.zeros(d)
            if F:
                z[F] = np.linalg.solve(M[np.ix_(F, F)], c[F])
            w = M @ z - c
            violation = max(0, -min(z.min(), w.min()))
            if violation < least:
                best = z
                least = violation
    return np.maximum(best, 0)


# --- guards


class LEcuyer:
    """The random numbers of the guards: a multiplicative generator of L'Ecuyer (1988)
    and Box-Muller.
    """

    def __init__(self, seed):
        self.a = int(seed[0])

    def uniform(self):
        self.a = self.a * 40014 % 2147483563
        return self.a / 2147483563

    def standard_normal(self, n):
        return [
            math.sqrt(-2 * math.log(self.uniform()))
            * math.cos(2 * math.pi * self.uniform())
            for _ in range(n)
        ]


def two_compartment_step(state, x, eta):
    """Algorithm 2 with the guard `rate`: eta at most 0.5/|x - x_bar|^2."""
    t = min(state["t"] + 1, state["window"])
    dx = (x - state["x_bar"]) * (1 - 1 / t)  # x less the mean that includes x
    return reference.two_compartment_step(
        state, x, min(eta, 0.5 / max(dx @ dx, 1e-300))
    )


def nonnegative_pca_step(state, x, eta):
    """Nonnegative PCA with the guard `rate`: eta at most 1/|y|^2."""
    y = np.maximum(state["W"] @ state["F"] @ x, 0)
    return reference.nonnegative_pca_step(state, x, min(eta, 1 / max(y @ y, 1e-300)))


def two_layer_nsm_repair(state, y):
    """The repairs of 2-layer NSM and the guard `spectrum`, which acts on W_yy as the
    paper's does on W_zz.
    """
    reference.repair(state | {"W_zz": state["W_yy"]}, y)


# --- running whitening


def log_inverse_correlation(C):
    """log tr(R^-1)/d of the correlation matrix R of outputs with the covariance C,
    after 0.01 is added to each variance.
    """
    C = C + 0.01 * np.eye(len(C))
    return np.log(
        np.trace(np.linalg.inv(C / np.sqrt(np.outer(np.diag(C), np.diag(C))))) / len(C)
    )


class Blocks:
    """How correlated past blocks of outputs were: mean and mean deviation."""

    def __init__(self):
        self.n = 0
        self.mean = 0.0
        self.spread = 0.0

    def is_unusual(self, correlation):
        unusual = self.n >= 8 and correlation > 0.05 + self.mean + 15 * self.spread
        self.n += 1
        self.mean += (correlation - self.mean) / min(self.n, 8)
        self.spread += (abs(correlation - self.mean) - self.spread) / min(self.n, 8)
        return bool(unusual)


class RunningWhitening:
    """K with K C K' = I for the running covariance C, one sample at a time: weight,
    start, unusual blocks, restart.
    """

    def __init__(self, K, horizon=0):
        self.d, self.h, self.K = len(K), horizon, K.copy()
        self.last = 0.0
        self.run = 0
        self.changed = False
        self.restarts = 0
        self.begin()

    def begin(self):
        d = self.d
        self.v_bar = np.zeros(d)
        self.age = self.n = self.turned = self.power = self.prior = self.due = 0.0
        self.block, self.past = [], Blocks()
        self.level, self.r = 1.0, np.array([10.0 * d, 10.0 * d])

    def energy(self):
        return self.d + self.v_bar @ self.v_bar

    def learns_from(self, x, v):
        """Whether to learn from x; the first nonzero sample sets the scale."""
        self.run = self.run + 1 if np.array_equal(x, self.last) else 0
        self.last = x
        if self.run > 30:
            return False
        if self.power == 0:
            if v @ v > 0:
                self.power, self.prior, self.n, self.due = (
                    v @ v / self.d,
                    1.0,
                    self.d + 6.0,
                    self.d + 6.0,
                )
                self.K = self.K / np.sqrt(self.power)
            return False
        # the first sample was too small
        if self.age < self.d + 6 and v @ v > 30 * self.energy():
            self.level = 0.0
            return False
        return True

    def weigh(self, v):
        """dv and the weight g."""
        dv = v - self.v_bar
        q = dv @ dv
        if self.run == 0 and v @ v > 0 and self.past.n == 0:
            self.level += (
                3 / (self.age + 6) * (min(v @ v / self.energy(), 1) - self.level)
            )
        tau = 1.5 * self.r[1] * max(self.r[1] / self.r[0], 1) ** 2
        g = min(1, tau / q) ** 2 if q > 0 else 1.0
        s = self.quantile_step()
        self.r = self.r * np.where(q > self.r, 1 + s, 1 - s * np.array([0.02, 0.005]))
        return dv, g

    def quantile_step(self):
        return max(0.05, 1 / (1 + self.age / (20 * self.d)))

    def count(self, g):
        """The weights of a sample in C and in the mean."""
        self.age += g
        self.n = min(self.n + g, self.h or np.inf)
        w = g / self.n
        m = g / min(self.age, self.h or np.inf)
        self.prior *= 1 - w
        return w, m

    def whiten(self, dv, w, m):
        q = dv @ dv
        w2 = w * (1 - m) / (1 - w)
        B = np.eye(self.d) + (
            (1 / np.sqrt(1 + w2 * q) - 1) / q if q > 0 else 0
        ) * np.outer(dv, dv)
        B /= np.sqrt(1 - w)
        self.K, self.v_bar = B @ self.K, B @ (self.v_bar + m * dv)

    def rotation(self, v, g):
        """The rotation towards the orthant for the outputs v."""
        d = self.d
        p = np.maximum(v, 0)
        e = np.minimum(v, 0)
        R = np.eye(d)
        if e @ e > (64 * np.finfo(float).eps) ** 2 * (v @ v):
            self.turned = min(self.turned + 1, self.h or np.inf)
            if p.any():
                a = p / np.linalg.norm(p)
                b = e / np.linalg.norm(e)
                tan = np.linalg.norm(e) / (np.linalg.norm(v) + np.linalg.norm(p))
                tan *= (
                    g
                    / np.sqrt(1 + self.turned / (500 * d))
                    * (1 + 1 / (1 + 10 * (e @ e) / (p @ p)))
                )
                tan *= 1.3 * (v @ v) / (v @ v + 0.3 * self.energy())
                phi = 2 * np.arctan(tan)
                R += (np.cos(phi) - 1) * (np.outer(a, a) + np.outer(b, b))
                R += np.sin(phi) * (np.outer(a, b) - np.outer(b, a))
        return R

    def block_length(self):
        return 300 + 30 * self.d

    def add_to_block(self, v, g):
        """The samples before `due` are a block."""
        if self.due - self.age <= self.block_length():
            self.block.append((v, np.sqrt(g)))

    def is_due(self):
        """Whether `tend`, the test of a block or a restart is due before the next
        sample.
        """
        return self.power > 0 and (self.age >= self.due or self.level < 3e-4)

    def must_restart(self, V):
        """Whether the outputs lost their size, or a block that ends here shows a
        change; V turns v into outputs.
        """
        d = self.d
        h = self.h
        if self.level < 3e-4:
            self.level = 1.0
            return True
        if len(self.block) < self.block_length():
            return False
        v = np.array([v for v, _ in self.block])
        weight = np.array([weight for _, weight in self.block])
        v = v @ V.T
        C = (v.T * weight) @ v / len(v)
        mean = weight @ v / len(v)
        variance = np.trace(C) - mean @ mean
        self.block = []
        different = False
        if variance > 0 and self.prior == 0:
            different = self.past.is_unusual(
                log_inverse_correlation(C - np.outer(mean, mean))
            )
            if h and self.past.n > 1:
                different |= variance > 30 * d or variance < 3e-4 * d
        self.changed |= different and not h
        return bool(different and h)

    def restart(self):
        L = np.linalg.cholesky(self.K @ self.K.T)
        self.K = np.linalg.solve(L, self.K)  # the rows of K, orthonormal
        self.restarts += self.age >= self.d + 6
        blocks = min(self.past.n, 1)
        self.begin()
        self.past.n = blocks

    def tend(self):
        if self.prior > 0:
            first = self.age < 20 * self.d
            for _ in range(1 if first else 9):
                share = 0.5 if first else 0.99
                self.add(-share * self.prior * self.power)
                self.prior *= 1 - share
            if not first:
                self.prior = 0.0
                if self.age < self.n:
                    self.K, self.v_bar = (
                        np.sqrt(self.age / self.n) * a for a in (self.K, self.v_bar)
                    )
                    self.n = self.age
        self.add(0.25 * (1e-10 if self.h else 1e-16) * self.power)
        self.due = self.age + max(self.d, min(0.25 * self.n, 25 * (300 + 30 * self.d)))

    def add(self, w):
        """C <- C + w I: K <- (I + w K K')^-1/2 K."""
        values, U = np.linalg.eigh(np.eye(self.d) + w * self.K @ self.K.T)
        B = (U / np.sqrt(np.maximum(values, 0.005))) @ U.T
        self.K, self.v_bar = B @ self.K, B @ self.v_bar


# --- StreamingNICA


class OrthantRotation(RunningWhitening):
    """The rule of StreamingNICA: the running whitening, turned into the orthant.

    `F` is None where there are as many mixtures as sources.
    """

    def __init__(self, V, F=None, horizon=0):
        self.F, self.k = F, len(V) if F is None else F.shape[1]
        super().__init__(np.eye(len(V)), horizon)
        self.V = self.V_mean = V

    def begin(self):
        super().begin()
        self.V = self.V_mean = np.eye(self.d)
        self.x_bar, self.P, self.outside = (
            np.zeros(self.k),
            np.zeros((self.k, self.d)),
            0.0,
        )

    def step(self, x):
        """Learn from x; returns the output that was made before learning."""
        d = self.d
        if self.is_due():
            self.maintain()
        u = x if self.F is None else self.F @ x
        v = self.K @ u
        y = np.maximum(self.V_mean @ v, 0) if self.power > 0 else np.zeros(d)
        if 0 < v @ v and self.age < 20 * d:
            y *= min(1, np.sqrt((2 + self.age / d) * self.energy() / (v @ v)))
        if self.learns_from(x, v):
            self.learn(x, v)
        return y

    def maintain(self):
        if self.must_restart(self.V):
            self.K = self.V @ self.K
            self.restart()
        elif self.age >= self.due:
            if (self.V @ self.v_bar).sum() < 0:
                self.V = self.V_mean = -self.V
            self.tend()
            if self.F is not None and self.prior == 0:
                self.turn_projection()

    def learn(self, x, v):
        dv, g = self.weigh(v)
        self.add_to_block(v, g)
        if self.F is not None:
            s = self.quantile_step()
            dx = x - self.x_bar
            du = self.F @ dx
            rest = max(dx @ dx - du @ du, 1e-13 * (dx @ dx))
            self.outside = self.outside or rest
            g = min(g, min(1, 1.5 * self.outside / rest) ** 2 if rest > 0 else 1)
            self.outside *= 1 + s if rest > self.outside else 1 - s * 0.005
        self.V = self.rotation(self.V @ v, g) @ self.V
        w, m = self.count(g)
        self.whiten(dv, w, m)
        if self.F is not None:
            self.P += g * np.outer(dx, du)
            self.x_bar = self.x_bar + m * dx
        self.V_mean = self.V_mean + 11 / (min(self.age, self.h or np.inf) + 10) * (
            self.V - self.V_mean
        )

    def turn_projection(self):
        A = self.P @ (self.V @ self.K).T
        U, T = np.linalg.qr(A)
        U = U * np.sign(np.diag(T))
        T = T * np.sign(np.diag(T))[:, np.newaxis]
        self.P[:] = 0
        if (np.diag(T) ** 2 > 1e-26 * (A**2).sum(axis=0)).all():
            self.K = self.K @ self.F @ A @ np.linalg.inv(T)
            self.F = U.T
            self.v_bar = self.K @ (self.F @ self.x_bar)

    @property
    def components(self):
        """polar(V_mean) K F."""
        U, _, W = np.linalg.svd(self.V_mean)
        K = U @ W @ self.K
        return K if self.F is None else K @ self.F
