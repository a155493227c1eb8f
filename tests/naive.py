"""The paper transcribed line by line in NumPy: the specification that the compiled networks are tested against.

Shares no code with `bionica`. Mixtures are the rows of X; weights are passed in a dict by the paper's names and come
back in one. Quadratic programs are solved by quadprog (as the paper did), asymmetric ones by trying every set of
firing neurons.
"""

import itertools
import math

import numpy as np
from quadprog import solve_qp

# --------------------------------------------------------------------------------------------- neural dynamics


def settle_qp(M, c):
    """min z'Mz/2 - c'z over z >= 0."""
    try:
        z = solve_qp((M + M.T) / 2, c, np.eye(len(c)), np.zeros(len(c)))[0]
    except ValueError:  # quadprog finds constraints "inconsistent" that z = 0 satisfies
        return settle_lcp((M + M.T) / 2, c)
    return np.maximum(z, 0)


def settle_polished(M, c):
    """`settle_qp`, solved again over the neurons that fire: quadprog loses digits where M is nearly singular."""
    z = settle_qp(M, c)
    F = np.flatnonzero(z > 1e-8 * z.max(initial=0))
    polished = np.zeros(len(c))
    polished[F] = np.linalg.solve(M[np.ix_(F, F)], c[F])
    w = M @ polished - c
    return polished if min(polished.min(), w.min()) >= -1e-12 * np.abs(c).max() else z


def settle_lcp(M, c):
    """z >= 0, Mz - c >= 0, complementary, for M that need not be symmetric; by enumeration."""
    d = len(c)
    best, least = np.zeros(d), np.inf
    for size in range(d + 1):
        for firing in itertools.combinations(range(d), size):
            F = list(firing)
            z = np.zeros(d)
            if F:
                z[F] = np.linalg.solve(M[np.ix_(F, F)], c[F])
            w = M @ z - c
            violation = max(0, -min(z.min(), w.min()))
            if violation < least:
                best, least = z, violation
    return np.maximum(best, 0)


def settle_lateral(W, c, gamma, tol, max_iter):
    """Eq. 15, repeated until convergence; gamma None: the safe step."""
    z = np.zeros(len(c))
    gamma = 1 / np.trace(W) if gamma is None else gamma
    for _ in range(max_iter):
        new = np.maximum(z + gamma * (c - W @ z), 0)
        change = np.abs(new - z).max()
        z = new
        if change <= tol * gamma * np.abs(c).max():
            break
    return z


def settle_interneurons(W_yn, W_ny, c, gamma, tol, max_iter, rectify=True):
    """Eq. 9, repeated until convergence; gamma None: the safe step."""
    y, n = np.zeros(len(c)), np.zeros(len(W_yn))
    if gamma is None:
        gamma = 0.5 / max(np.linalg.norm(W_yn) * np.linalg.norm(W_ny), 1)
    for _ in range(max_iter):
        y_new = y + gamma * (c - W_ny @ n)
        if rectify:
            y_new = np.maximum(y_new, 0)
        n_new = n + gamma * (W_yn @ y_new - n)
        change_y, change_n = np.abs(y_new - y).max(), np.abs(n_new - n).max()
        y, n = y_new, n_new
        if change_y <= tol * gamma * np.abs(c).max() and change_n <= tol * gamma * np.abs(n).max():
            break
    return y, n


# --------------------------------------------------------------------------------------------- guards (appendix C)


class LEcuyer:
    """The random numbers of the guards: a multiplicative generator of L'Ecuyer (1988) and Box-Muller."""

    def __init__(self, seed):
        self.a = int(seed[0])

    def uniform(self):
        self.a = self.a * 40014 % 2147483563
        return self.a / 2147483563

    def normal(self):
        radius = math.sqrt(-2 * math.log(self.uniform()))
        return radius * math.cos(2 * math.pi * self.uniform())


class Guards:
    def __init__(self, names, d, seed):
        self.names = names
        self.fired = np.zeros(d, bool)
        self.rng = LEcuyer(seed)
        self.repairs = dict.fromkeys(("silent", "row", "spectrum", "rate"), 0)

    def flip_silent(self, W, y):
        if "silent" in self.names:
            self.fired |= y > 0
            for i in np.flatnonzero(~self.fired):
                W[i] = -W[i]
                self.repairs["silent"] += 1

    def replace_rows(self, W):
        if "row" in self.names:
            for i in range(len(W)):
                if np.linalg.norm(W[i]) < 0.1:
                    W[i] = [self.rng.normal() for _ in range(W.shape[1])]
                    self.repairs["row"] += 1

    def lift_singular_values(self, W):
        if "spectrum" in self.names:
            u, s, vh = np.linalg.svd(W, full_matrices=False)
            if (s < 0.01).any():
                self.repairs["spectrum"] += int((s < 0.01).sum())
                s[s < 0.01] = 1
                W[:] = u @ np.diag(s) @ vh

    def lift_eigenvalues(self, W):
        if "spectrum" in self.names:
            lam, v = np.linalg.eigh(W)
            if (lam < 0.01).any():
                self.repairs["spectrum"] += int((lam < 0.01).sum())
                lam[lam < 0.01] = 1
                W[:] = v @ np.diag(lam) @ v.T

    def cap(self, eta, most):
        if "rate" in self.names and eta > most:
            self.repairs["rate"] += 1
            return most
        return eta


# --------------------------------------------------------------------------------------------- the networks


def weight_of_mean(t, window):
    return 1 / t if window is None else 1 / min(t, window)


def interneuron(X, weights, rates, *, guards=(), seed=(1,), window=None, gradient=None):
    """Algorithm 1."""
    W_xy, W_yn, W_ny = (np.array(weights[name], float) for name in ("W_xy", "W_yn", "W_ny"))
    d, k = W_xy.shape
    m = len(W_yn)
    guard = Guards(guards, d, seed)
    x_bar, y_bar, n_bar = np.zeros(k), np.zeros(d), np.zeros(m)
    outputs = []
    for t in range(1, len(X) + 1):
        x, eta = X[t - 1], rates[t - 1]
        c = W_xy @ x
        if gradient is None:
            y = settle_qp(W_ny @ W_yn, c)
            n = W_yn @ y
        else:
            y, n = settle_interneurons(W_yn, W_ny, c, *gradient)
        weight = weight_of_mean(t, window)
        x_bar = x_bar + weight * (x - x_bar)
        y_bar = y_bar + weight * (y - y_bar)
        n_bar = n_bar + weight * (n - n_bar)
        W_xy = W_xy + eta * (np.outer(y - y_bar, x - x_bar) - W_xy)
        W_ny = W_ny + eta * (np.outer(y - y_bar, n - n_bar) - W_ny)
        W_yn = W_yn + eta * (np.outer(n - n_bar, y - y_bar) - W_yn)
        guard.flip_silent(W_xy, y)
        if t % 100 == 0:
            guard.replace_rows(W_xy)
            for W in (W_xy, W_yn, W_ny):
                guard.lift_singular_values(W)
        outputs.append(y)
    return np.array(outputs), {"W_xy": W_xy, "W_yn": W_yn, "W_ny": W_ny}, guard.repairs


def two_compartment(X, weights, rates, *, tau, guards=(), seed=(1,), window=None, gradient=None):
    """Algorithm 2."""
    W_xz, W_zz = np.array(weights["W_xz"], float), np.array(weights["W_zz"], float)
    d, k = W_xz.shape
    guard = Guards(guards, d, seed)
    x_bar, c_bar = np.zeros(k), np.zeros(d)
    outputs = []
    for t in range(1, len(X) + 1):
        x, eta = X[t - 1], rates[t - 1]
        c = W_xz @ x
        z = settle_qp(W_zz, c) if gradient is None else settle_lateral(W_zz, c, *gradient)
        weight = weight_of_mean(t, window)
        x_bar = x_bar + weight * (x - x_bar)
        c_bar = c_bar + weight * (c - c_bar)
        with np.errstate(divide="ignore"):
            eta = guard.cap(eta, 0.5 / np.sum((x - x_bar) ** 2))
        W_xz = W_xz + 2 * eta * (np.outer(z, x) - np.outer(c - c_bar, x - x_bar))
        W_zz = W_zz + eta / tau * (np.outer(z, z) - W_zz)
        guard.flip_silent(W_xz, z)
        if t % 100 == 0:
            guard.lift_eigenvalues(W_zz)
        outputs.append(z)
    return np.array(outputs), {"W_xz": W_xz, "W_zz": W_zz}, guard.repairs


class WhiteningLayer:
    """The first layer of Pehlevan et al. (2017)."""

    def __init__(self, weights, window, gradient):
        self.W_xh, self.W_hg = np.array(weights["W_xh"], float), np.array(weights["W_hg"], float)
        self.window, self.gradient = window, gradient
        d, k = self.W_xh.shape
        self.x_bar, self.h_bar, self.g_bar = np.zeros(k), np.zeros(d), np.zeros(d)

    def settle(self, x):
        c = self.W_xh @ x
        if self.gradient is None:
            h = np.linalg.inv(self.W_hg.T @ self.W_hg) @ c
            return h, self.W_hg @ h
        return settle_interneurons(self.W_hg, self.W_hg.T, c, *self.gradient, rectify=False)

    def learn(self, x, h, g, t, zeta):
        weight = weight_of_mean(t, self.window)
        self.x_bar = self.x_bar + weight * (x - self.x_bar)
        self.h_bar = self.h_bar + weight * (h - self.h_bar)
        self.g_bar = self.g_bar + weight * (g - self.g_bar)
        self.W_xh = self.W_xh + zeta * (np.outer(h - self.h_bar, x - self.x_bar) - self.W_xh)
        self.W_hg = self.W_hg + zeta * (np.outer(g - self.g_bar, h - self.h_bar) - self.W_hg)


def two_layer_nsm(X, weights, rates, zetas, *, guards=(), seed=(1,), window=None, gradient=None):
    """2-layer NSM."""
    layer = WhiteningLayer(weights, window, gradient)
    W_hy, W_yy = np.array(weights["W_hy"], float), np.array(weights["W_yy"], float)
    guard = Guards(guards, len(W_hy), seed)
    outputs = []
    for t in range(1, len(X) + 1):
        x, eta = X[t - 1], rates[t - 1]
        h, g = layer.settle(x)
        c = W_hy @ h
        y = settle_qp(W_yy, c) if gradient is None else settle_lateral(W_yy, c, *gradient)
        layer.learn(x, h, g, t, zetas[t - 1])
        W_hy = W_hy + eta * (np.outer(y, h) - W_hy)
        W_yy = W_yy + eta * (np.outer(y, y) - W_yy)
        guard.flip_silent(W_hy, y)
        if t % 100 == 0:
            guard.lift_eigenvalues(W_yy)
        outputs.append(y)
    learned = {"W_xh": layer.W_xh, "W_hg": layer.W_hg, "W_hy": W_hy, "W_yy": W_yy}
    return np.array(outputs), learned, guard.repairs


def whiten_offline(X, d):
    """Noncentered whitening over the d leading directions: F with cov(F x) = I; Lambda^-1/2 U'."""
    C = np.cov(X.T, bias=True).reshape(X.shape[1], X.shape[1])
    lam, U = np.linalg.eigh(C)
    leading = np.argsort(lam)[::-1][:d]
    return (U[:, leading] / np.sqrt(lam[leading])).T


def nonnegative_pca(X, weights, rates, zetas=None, *, F=None, guards=(), seed=(1,), window=None, gradient=None):
    """Online nonnegative PCA; F whitens offline, zetas are the rates of online whitening, neither: X is white."""
    W = np.array(weights["W"], float)
    layer = WhiteningLayer(weights, window, gradient) if zetas is not None else None
    guard = Guards(guards, len(W), seed)
    outputs = []
    for t in range(1, len(X) + 1):
        x, eta = X[t - 1], rates[t - 1]
        if layer is not None:
            h, g = layer.settle(x)
        else:
            h = x if F is None else F @ x
        y = np.maximum(W @ h, 0)
        with np.errstate(divide="ignore"):
            eta = guard.cap(eta, 1 / np.sum(y**2))
        W = W + eta * (np.outer(y, h) - np.outer(y, y) @ W)
        if layer is not None:
            layer.learn(x, h, g, t, zetas[t - 1])
        guard.flip_silent(W, y)
        outputs.append(y)
    learned = {"W": W} | ({} if layer is None else {"W_xh": layer.W_xh, "W_hg": layer.W_hg})
    return np.array(outputs), learned, guard.repairs


# --------------------------------------------------------------------------------------------- running whitening


def log_inverse_correlation(C):
    """log tr(R^-1)/d of the correlation matrix R of outputs with the covariance C, after 0.01 is added to each variance."""
    C = C + 0.01 * np.eye(len(C))
    return np.log(np.trace(np.linalg.inv(C / np.sqrt(np.outer(np.diag(C), np.diag(C))))) / len(C))


class Blocks:
    """What past blocks of outputs were like: means and mean deviations of their correlation and of their negative share."""

    def __init__(self):
        self.n, self.mean, self.spread = 0, np.zeros(2), np.zeros(2)

    def is_unusual(self, correlation, negative):
        now = np.array([correlation, negative])
        correlated, negative = now > [0.05, 0.01] + [1, 3] * self.mean + 15 * self.spread
        unusual = self.n >= 8 and (correlated or (negative and now[0] > self.mean[0]))
        self.n += 1
        self.mean = self.mean + (now - self.mean) / min(self.n, 8)
        self.spread = self.spread + (abs(now - self.mean) - self.spread) / min(self.n, 8)
        return bool(unusual)


class RunningWhitening:
    """K with K C K' = I for the running covariance C, one sample at a time: weight, start, unusual blocks, restart."""

    def __init__(self, K, horizon=0, v_bar=None, n=0):
        self.d, self.h, self.K = len(K), horizon, K.copy()
        self.last, self.run = 0.0, 0
        self.changed, self.restarts = False, 0
        self.begin()
        if n:
            self.v_bar, self.n, self.age, self.power, self.due = v_bar.copy(), float(n), float(n), 1.0, 1.25 * n

    def begin(self):
        d = self.d
        self.v_bar = np.zeros(d)
        self.age = self.n = self.turned = self.power = self.prior = self.due = 0.0
        self.block, self.negatives, self.past = [], [], Blocks()
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
                self.power, self.prior, self.n, self.due = v @ v / self.d, 1.0, self.d + 6.0, 3.0 * self.d
                self.K = self.K / np.sqrt(self.power)
            return False
        if self.age < self.d + 6 and v @ v > 30 * self.energy():  # the first sample was too small
            self.level = 0.0
            return False
        return True

    def weigh(self, v, bounded=True):
        """dv and the weight g."""
        dv = v - self.v_bar
        q = dv @ dv
        if self.run == 0 and v @ v > 0 and self.past.n == 0:
            self.level += 3 / (self.age + 6) * (min(v @ v / self.energy(), 1) - self.level)
        g = 1.0
        if bounded:
            tau = 1.5 * self.r[1] * np.clip(self.r[1] / self.r[0], 1, 4) ** 2
            g = min(1, tau / q) ** 2 if q > 0 else 1.0
            s = self.quantile_step()
            self.r = self.r * np.where(q > self.r, 1 + s, 1 - s * np.array([0.02, 0.005]))
        return dv, g

    def quantile_step(self):
        return max(0.05, 1 / (1 + self.age / (60 * self.d)))

    def count(self, g):
        """The weights of a sample in C and in the mean."""
        self.age += g
        self.n = min(self.n + g, self.h or np.inf)
        w, m = g / self.n, g / min(self.age, self.h or np.inf)
        self.prior *= 1 - w
        return w, m

    def whiten(self, dv, w, m):
        q = dv @ dv
        w2 = w * (1 - m) / (1 - w)
        B = np.eye(self.d) + ((1 / np.sqrt(1 + w2 * q) - 1) / q if q > 0 else 0) * np.outer(dv, dv)
        B /= np.sqrt(1 - w)
        self.K, self.v_bar = B @ self.K, B @ (self.v_bar + m * dv)

    def rotation(self, v, g):
        """The rotation towards the orthant for the outputs v."""
        d = self.d
        p, e = np.maximum(v, 0), np.minimum(v, 0)
        R, negative = np.eye(d), 0.0
        if e @ e > (64 * np.finfo(float).eps) ** 2 * (v @ v):
            negative = g * (e @ e)
            self.turned = min(self.turned + 1, self.h or np.inf)
            if p.any():
                a, b = p / np.linalg.norm(p), e / np.linalg.norm(e)
                tan = np.linalg.norm(e) / (np.linalg.norm(v) + np.linalg.norm(p))
                tan *= g / np.sqrt(1 + self.turned / (500 * max(d, 20))) * (1 + 0.8 / (1 + 10 * (e @ e) / (p @ p)))
                tan *= 1.3 * (v @ v) / (v @ v + 0.3 * self.energy())
                phi = 2 * np.arctan(tan)
                R += (np.cos(phi) - 1) * (np.outer(a, a) + np.outer(b, b))
                R += np.sin(phi) * (np.outer(a, b) - np.outer(b, a))
        if self.due - self.age <= self.block_length():
            self.negatives.append(min(negative / self.energy(), 1))
        return R

    def block_length(self):
        return max(300 + 30 * self.d, self.h / 4)

    def add_to_block(self, v, g):
        """The samples before `due` are a block."""
        if self.due - self.age <= self.block_length():
            self.block.append((v, np.sqrt(g)))

    def is_due(self):
        """Whether `tend`, the test of a block or a restart is due before the next sample."""
        return self.power > 0 and (self.age >= self.due or self.level < 3e-4)

    def must_restart(self, V):
        """Whether the outputs lost their size, or a block that ends here shows a change; V turns v into outputs."""
        d, h = self.d, self.h
        if self.level < 3e-4:
            self.level = 1.0
            return True
        if len(self.block) < self.block_length():
            return False
        v, weight = np.array([v for v, _ in self.block]), np.array([weight for _, weight in self.block])
        v = v @ V.T
        C, mean, share = (v.T * weight) @ v / len(v), weight @ v / len(v), sum(self.negatives) / len(v)
        variance = np.trace(C) - mean @ mean
        self.block, self.negatives, different = [], [], False
        if variance > 0 and self.prior == 0:
            different = self.past.is_unusual(log_inverse_correlation(C - np.outer(mean, mean)), share)
            if h and self.past.n > 1:
                different |= variance > 10 * d or variance < 3e-4 * d
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
                    self.K, self.v_bar = (np.sqrt(self.age / self.n) * a for a in (self.K, self.v_bar))
                    self.n = self.age
        self.add(0.25 * (1e-10 if self.h else 1e-16) * self.power)
        self.due = self.age + max(self.d, min(0.25 * self.n, 25 * (300 + 30 * self.d)))

    def add(self, w):
        """C <- C + w I: K <- (I + w K K')^-1/2 K."""
        values, U = np.linalg.eigh(np.eye(self.d) + w * self.K @ self.K.T)
        B = (U / np.sqrt(np.maximum(values, 0.005))) @ U.T
        self.K, self.v_bar = B @ self.K, B @ self.v_bar


# --------------------------------------------------------------------------------------------- natural-gradient steps


class Natural:
    """What both natural networks share; V = M^-1 W."""

    def __init__(self, F, white, W, M, guards):
        self.F, self.white, self.W, self.M, self.guards = F, white, W, M, guards
        self.W_mean, self.M_mean, self.flipped = W, M, 0

    def step(self, x, eta):
        """Learn from x; returns the output that was made before learning."""
        white = self.white
        if white.is_due():
            self.attend()
        u = self.F @ x
        v = white.K @ u
        y = settle_polished(self.M, self.W @ v)
        if white.learns_from(u, v):
            V = np.linalg.solve(self.M, self.W)
            dv, g = white.weigh(v, "rate" in self.guards)
            white.add_to_block(v, g)
            T = white.rotation(V @ v, g) - np.eye(white.d)
            s, p = self.vectors(y, v, V)
            q = s @ np.linalg.solve(self.M, s)
            a = g * eta * (s @ s) / (1 + s @ s) ** 2
            self.W = (1 - a) * self.W + a * np.outer(s, p)
            self.learn_lateral(s, a, q)
            self.W = self.W + self.M @ T @ V
            white.whiten(dv, *white.count(g))
            c = 11 / (white.n + 10)
            self.W_mean, self.M_mean = (
                self.W_mean + c * (self.W - self.W_mean),
                self.M_mean + c * (self.M - self.M_mean),
            )
        return y

    def attend(self):
        white = self.white
        V = np.linalg.solve(self.M, self.W)
        negative = V @ white.v_bar < 0
        if white.must_restart(V) and "restart" in self.guards:
            white.K = V @ white.K
            white.restart()
            self.set_identity()
            self.W_mean, self.M_mean = self.W, self.M
            return
        if white.age >= white.due:
            white.tend()
        if "silent" in self.guards and negative.any():
            self.flip(np.where(negative, -1.0, 1.0))
            self.flipped += negative.sum()
            self.W_mean, self.M_mean = self.W, self.M


class NaturalTwoCompartment(Natural):
    """Algorithm 2 with natural-gradient steps; W is W_xz and M is W_zz."""

    def vectors(self, z, v, V):
        return z, v

    def learn_lateral(self, z, a, q):
        self.M = (1 - a) * self.M + a * np.outer(z, z)

    def flip(self, sign):
        self.W, self.M = sign[:, None] * self.W, np.outer(sign, sign) * self.M

    def set_identity(self):
        self.W = self.M = np.eye(self.white.d)


class NaturalInterneuron(Natural):
    """Algorithm 1 with natural-gradient steps; W is W_xy and M is W_yn'W_yn."""

    def __init__(self, F, white, W_xy, W_yn, guards):
        super().__init__(F, white, W_xy, W_yn.T @ W_yn, guards)
        self.W_yn = W_yn

    def vectors(self, y, v, V):
        return y - V @ self.white.v_bar, v - self.white.v_bar

    def learn_lateral(self, dy, a, q):
        b = (np.sqrt(1 + a / (1 - a) * q) - 1) / q if q > 0 else 0.0
        self.W_yn = np.sqrt(1 - a) * (self.W_yn + b * np.outer(self.W_yn @ np.linalg.solve(self.M, dy), dy))
        self.M = self.W_yn.T @ self.W_yn

    def flip(self, sign):
        self.W, self.W_yn, self.M = sign[:, None] * self.W, sign * self.W_yn, np.outer(sign, sign) * self.M

    def set_identity(self):
        self.W, self.W_yn = np.eye(self.white.d), np.eye(*self.W_yn.shape)
        self.M = self.W_yn.T @ self.W_yn


def cone_network(
    X, W_xz, W_zz, rates, *, kappa=None, F=None, white=None, size=None, horizon=None, guards=(), gradient=None
):
    """The network for correlated sources: natural steps with a RunningWhitening, else local with the mean `size` of x'x/d.

    W_xz are weights from F x, or from x.

    Returns outputs, weights and averaged weights, and the hardness of each wall.
    """
    W_xz, Q = np.array(W_xz, float), W_zz - np.eye(len(W_zz))
    d, k = W_xz.shape
    log_kappa, p, m, q = np.zeros(d), np.ones(d), np.ones(d), np.ones(d)
    mean_xz, mean_Q = W_xz, Q
    outputs = []
    for t, (x, eta) in enumerate(zip(X, rates, strict=True), 1):
        if white is not None and white.is_due():
            white.tend()
        u = x if white is None else F @ x
        c = W_xz @ u
        z = settle_lcp(np.eye(d) + Q, c) if gradient is None else settle_lateral(np.eye(d) + Q, c, *gradient)
        v = c - Q @ z
        if white is None:
            w_mean = 1 / (t + k if horizon is None else min(t + k, horizon))
            size = size + w_mean * (min(u @ u / d, 25 * size) - size)
            P = np.eye(k) / size
        else:
            assert white.learns_from(u, white.K @ u)
            dv, share = white.weigh(white.K @ u, "rate" in guards)
            P = white.K.T @ np.linalg.inv(np.eye(d) + np.outer(white.v_bar, white.v_bar)) @ white.K
            eta = share * eta
        w = 1 / max(1, np.abs(v).mean())
        top = -0.75 * np.log(np.finfo(float).eps) if kappa is None else np.log(kappa)
        if horizon is not None:
            top = min(top, 2 * np.log(max(eta * horizon / d, 1)))
        new_Q, dendrite = Q.copy(), W_xz.copy()
        for i in range(d):
            hard = np.exp(log_kappa[i])
            s = 0.0
            if v[i] < 0:
                s = min(np.sqrt(hard) * w * -v[i], 5 * np.sqrt(q[i]))
                z_bar = w * (z.sum() - z[i]) / max(d - 1, 1)
                if z_bar > 0:
                    p[i] += 0.04 * (z_bar - p[i])
                    m[i] += 0.04 * z_bar * (s - m[i])
                    q[i] += 0.04 * p[i] * (s**2 - q[i])
                    r = 1 if kappa is not None else min(1, m[i] ** 2 / q[i])
                    log_kappa[i] += 1.25 * eta / d * z_bar * (r - 0.6)
                    log_kappa[i] = np.clip(log_kappa[i], 0, max(top, 0))
            a, b = eta / (hard * d), eta / (hard**0.75 * d) * (3 if white is None else 1)
            for j in range(d):
                if j != i:
                    new_Q[i, j] = Q[i, j] + a * (w * z[j] * (1 - np.sqrt(hard) * s) - Q[i, j])
            h = b * w * np.abs(v).mean() * (1 - min(abs(v[i]), 5))
            dendrite[i] = W_xz[i] * (1 + h if h > 0 else 1 / (1 - h))
            dendrite[i] += b * (v[i] - c[i]) * (P @ u) / (1 + b * (u @ P @ u))
        W_xz, Q = dendrite, new_Q
        if white is None:
            weight = 11 / ((t if horizon is None else min(t, horizon)) + 10)
        else:
            white.whiten(dv, *white.count(share))
            weight = 11 / (white.n + 10)
        mean_xz, mean_Q = mean_xz + weight * (W_xz - mean_xz), mean_Q + weight * (Q - mean_Q)
        outputs.append(z)
    W_zz, mean_zz = np.eye(d) + Q, np.eye(d) + mean_Q
    weights = {"W_xz": W_xz, "W_zz": W_zz, "W_xz_mean": mean_xz, "W_zz_mean": mean_zz, "wall.log_kappa": log_kappa}
    return np.array(outputs), weights


# ---------------------------------------------------------------------------------------------- StreamingNICA


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
        self.x_bar, self.P, self.outside = np.zeros(self.k), np.zeros((self.k, self.d)), 0.0

    def step(self, x):
        """Learn from x; returns the output that was made before learning."""
        d = self.d
        if self.is_due():
            self.attend()
        u = x if self.F is None else self.F @ x
        v = self.K @ u
        y = np.maximum(self.V_mean @ v, 0) if self.power > 0 else np.zeros(d)
        if 0 < v @ v and self.age < 20 * d:
            y *= min(1, np.sqrt((2 + self.age / d) * self.energy() / (v @ v)))
        if self.learns_from(x, v):
            self.learn(x, v)
        return y

    def attend(self):
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
            g = min(g, min(1, 12 * self.outside / rest) ** 2 if rest > 0 else 1)
            self.outside *= 1 + s if rest > self.outside else 1 - s * 0.005
        self.V = self.rotation(self.V @ v, g) @ self.V
        w, m = self.count(g)
        self.whiten(dv, w, m)
        if self.F is not None:
            self.P += g * np.outer(dx, du)
            self.x_bar = self.x_bar + m * dx
        self.V_mean = self.V_mean + 6 / (min(self.age, self.h or np.inf) + 5) * (self.V - self.V_mean)

    def turn_projection(self):
        A = self.P @ (self.V @ self.K).T
        U, T = np.linalg.qr(A)
        U, T = U * np.sign(np.diag(T)), T * np.sign(np.diag(T))[:, np.newaxis]
        self.P[:] = 0
        if (np.diag(T) ** 2 > 1e-26 * (A**2).sum(axis=0)).all():
            self.K, self.F = self.K @ self.F @ A @ np.linalg.inv(T), U.T
            self.v_bar = self.K @ (self.F @ self.x_bar)

    @property
    def components(self):
        """polar(V_mean) K F."""
        U, _, W = np.linalg.svd(self.V_mean)
        K = U @ W @ self.K
        return K if self.F is None else K @ self.F
