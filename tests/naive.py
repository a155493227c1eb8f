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
    """The random numbers of the guards: L'Ecuyer's combined generator (1988) and Box-Muller."""

    def __init__(self, seed):
        self.a, self.b = int(seed[0]), int(seed[1])

    def uniform(self):
        self.a = self.a * 40014 % 2147483563
        self.b = self.b * 40692 % 2147483399
        s = (self.a - self.b) % 2147483562
        return (s if s >= 1 else s + 2147483562) / 2147483563

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


def interneuron(X, weights, rates, *, guards=(), seed=(1, 1), window=None, gradient=None, symmetric=True):
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
            y = (settle_qp if symmetric else settle_lcp)(W_ny @ W_yn, c)
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


def two_compartment(X, weights, rates, *, tau, guards=(), seed=(1, 1), window=None, gradient=None):
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


def two_layer_nsm(X, weights, rates, zetas, *, guards=(), seed=(1, 1), window=None, gradient=None):
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


def nonnegative_pca(X, weights, rates, zetas=None, *, F=None, guards=(), seed=(1, 1), window=None, gradient=None):
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


# --------------------------------------------------------------------------------------------- natural-gradient steps


class NaturalInput:
    """u = F x, its running mean and covariance (not inverted by updates, but anew for each sample)."""

    def __init__(self, F, u_bar, C, n, horizon):
        self.F, self.u_bar, self.C, self.n, self.horizon = F, np.array(u_bar), np.array(C), n, horizon

    def forgetting(self):
        return 1 / self.n if self.horizon is None else 1 / min(self.n, self.horizon)

    def averaging(self, gamma):
        if self.horizon is not None and self.n > self.horizon:
            return min(1, (gamma + 1) / self.horizon)
        return (gamma + 1) / (self.n + gamma)

    def observe(self, u):
        """Return R (u - u_bar), R u and (u - u_bar)' R (u - u_bar), the last with what was known before."""
        self.n += 1
        w = self.forgetting()
        q = (u - self.u_bar) @ np.linalg.inv(self.C) @ (u - self.u_bar)
        self.C = (1 - w) * (self.C + w * np.outer(u - self.u_bar, u - self.u_bar))
        self.u_bar = self.u_bar + w * (u - self.u_bar)
        R = np.linalg.inv(self.C)
        return R @ (u - self.u_bar), R @ u, q


def natural_two_compartment(X, inp, W_xz, W_zz, rates, *, tau=0.5, gamma=1.0, capped=False):
    """Algorithm 2 with natural-gradient steps; returns outputs, weights and averaged weights."""
    mean_xz, mean_zz = W_xz, W_zz
    outputs = []
    for x, eta in zip(X, rates, strict=True):
        u = inp.F @ x
        z = settle_qp(W_zz, W_xz @ u)
        _, p, q = inp.observe(u)
        eta = min(eta, 0.25 / q) if capped else eta
        W_xz = W_xz + 2 * eta * (np.outer(z, p) - W_xz)
        W_zz = W_zz + eta / tau * (np.outer(z, z) - W_zz)
        a = inp.averaging(gamma)
        mean_xz, mean_zz = mean_xz + a * (W_xz - mean_xz), mean_zz + a * (W_zz - mean_zz)
        outputs.append(z)
    return np.array(outputs), {"W_xz": W_xz, "W_zz": W_zz, "W_xz_mean": mean_xz, "W_zz_mean": mean_zz}


def natural_interneuron(X, inp, W_xy, W_yn, W_ny, y_bar, n_bar, rates, *, gamma=1.0, capped=False):
    """Algorithm 1 with natural-gradient steps; returns outputs, weights and averaged weights."""
    weights = {"W_xy": W_xy, "W_yn": W_yn, "W_ny": W_ny}
    means = dict(weights)
    outputs = []
    for x, eta in zip(X, rates, strict=True):
        W_xy, W_yn, W_ny = weights.values()
        u = inp.F @ x
        y = settle_qp(W_ny @ W_yn, W_xy @ u)
        n = W_yn @ y
        r, _, q = inp.observe(u)
        eta = min(eta, 0.5 / q) if capped else eta
        y_bar = y_bar + inp.forgetting() * (y - y_bar)
        n_bar = n_bar + inp.forgetting() * (n - n_bar)
        weights = {
            "W_xy": W_xy + eta * (np.outer(y - y_bar, r) - W_xy),
            "W_yn": W_yn + eta / 2 * (np.outer(n - n_bar, y - y_bar) - W_yn),
            "W_ny": W_ny + eta / 2 * (np.outer(y - y_bar, n - n_bar) - W_ny),
        }
        means = {name: means[name] + inp.averaging(gamma) * (W - means[name]) for name, W in weights.items()}
        outputs.append(y)
    return np.array(outputs), weights | {f"{name}_mean": W for name, W in means.items()}
