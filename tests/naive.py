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

    def __init__(self, F, u_bar, C, n, horizon, bounded):
        self.F, self.u_bar, self.C, self.n, self.horizon = F, np.array(u_bar), np.array(C), n, horizon
        self.bounded = bounded
        self.tails = np.full(2, 10.0 * len(u_bar))  # the 98 % and 99.5 % quantiles of q
        self.turned = 0.0

    def memory(self):
        return self.n if self.horizon is None else min(self.n, self.horizon)

    def averaging(self):
        if self.horizon is not None and self.n > self.horizon:
            return min(1, 11 / self.horizon)
        return 11 / (self.n + 10)

    def observe(self, u):
        """Return R (u - u_bar), R u and the weight of the sample."""
        self.n += 1
        w = 1 / self.memory()
        du = u - self.u_bar
        q = du @ np.linalg.inv(self.C) @ du
        share = 1.0
        if self.bounded:
            tau = 1.5 * self.tails[1] * np.clip(self.tails[1] / self.tails[0], 1, 4) ** 2
            share = min(1, tau / q) ** 2 if q > 0 else 1.0
            step = max(0.05, 1 / (1 + self.n / (30 * len(u))))
            self.tails = self.tails * np.where(q > self.tails, 1 + step, 1 - step * np.array([0.02, 0.005]))
        w *= share
        self.C = (1 - w) * (self.C + w * np.outer(du, du))
        self.u_bar = self.u_bar + w * du
        R = np.linalg.inv(self.C)
        return R @ (u - self.u_bar), R @ u, share

    def turn(self, v, y, share):
        """The rotation, less the identity, that a sample with some v_i < 0 turns V by."""
        d = len(v)
        if (v >= 0).all():
            return np.zeros((d, d))
        if self.horizon is not None:
            self.turned -= self.turned / self.horizon
        self.turned += 1
        if not y.any():
            return np.zeros((d, d))
        a = y / np.linalg.norm(y)
        e = v - (a @ v) * a
        b = e / np.linalg.norm(e)
        theta = np.arctan2(np.linalg.norm(e), a @ v)
        f = share * 1.8 / np.sqrt(1 + self.turned / (1000 * d))
        f *= y @ y / (1 + y @ y) / (1 + 10 * (e @ e) / (y @ y))
        phi = 2 * np.arctan(f * np.tan(theta / 2))
        inside, between = np.outer(a, a) + np.outer(b, b), np.outer(a, b) - np.outer(b, a)
        return (np.cos(phi) - 1) * inside + np.sin(phi) * between

    def floor(self):
        """The covariance gets a floor, to first order in its inverse."""
        R = np.linalg.inv(self.C)
        f = min(100 * 1e-6 / self.memory(), 0.5 / np.trace(R))
        self.C = np.linalg.inv(R - f * R @ R)


def step_of(eta, share, s, M):
    q = s @ np.linalg.solve(M, s)
    return q, share * eta * q / (1 + q) ** 2


def flips(V, u_bar):
    """Signs that make the mean outputs nonnegative."""
    return np.where(V @ u_bar < 0, -1.0, 1.0)


def natural_two_compartment(X, inp, W_xz, W_zz, rates, *, guards=(), seen=0, q_sum=0.0):
    """Algorithm 2 with natural-gradient steps; returns outputs, weights and averaged weights."""
    mean_xz, mean_zz = W_xz, W_zz
    outputs = []
    for t, (x, eta) in enumerate(zip(X, rates, strict=True), seen + 1):
        u = inp.F @ x
        z = settle_polished(W_zz, W_xz @ u)
        V = np.linalg.solve(W_zz, W_xz)
        _, p, share = inp.observe(u)
        T = inp.turn(V @ u, z, share)
        q, a = step_of(eta, share, z, W_zz)
        W_xz = (1 - a) * W_xz + a * np.outer(z, p)
        W_zz = (1 - a) * W_zz + a * np.outer(z, z)
        W_xz = W_xz + W_zz @ T @ V
        c = inp.averaging()
        mean_xz, mean_zz = mean_xz + c * (W_xz - mean_xz), mean_zz + c * (W_zz - mean_zz)
        outputs.append(z)
        q_sum += q
        if t % 100 == 0:
            size, q_sum = q_sum / (100 * len(u)), 0
            if "spectrum" in guards:
                scale = max(size, 0.01) if 0 < size < 0.05 else 1
                W_xz, W_zz = scale * W_xz, scale * W_zz
                inp.floor()
                V = np.linalg.solve(W_zz, W_xz)
                W_zz, _ = lifted(W_zz)
                W_xz = W_zz @ V
            if "silent" in guards:
                sign = flips(np.linalg.solve(W_zz, W_xz), inp.u_bar)
                W_xz, W_zz = sign[:, None] * W_xz, np.outer(sign, sign) * W_zz
                if (sign < 0).any():
                    mean_xz, mean_zz = W_xz, W_zz
    return np.array(outputs), {"W_xz": W_xz, "W_zz": W_zz, "W_xz_mean": mean_xz, "W_zz_mean": mean_zz}


def natural_interneuron(X, inp, W_xy, W_yn, rates, *, guards=(), seen=0, q_sum=0.0):
    """Algorithm 1 with natural-gradient steps; returns outputs, weights and averaged weights."""
    M = W_yn.T @ W_yn
    mean_xy, mean_M = W_xy, M
    outputs = []
    for t, (x, eta) in enumerate(zip(X, rates, strict=True), seen + 1):
        u = inp.F @ x
        y = settle_polished(M, W_xy @ u)
        V = np.linalg.solve(M, W_xy)
        r, _, share = inp.observe(u)
        T = inp.turn(V @ u, y, share)
        dy = y - V @ inp.u_bar
        q, a = step_of(eta, share, dy, M)
        W_xy = (1 - a) * W_xy + a * np.outer(dy, r)
        b = (np.sqrt(1 + a / (1 - a) * q) - 1) / q if q > 0 else 0.0
        W_yn = np.sqrt(1 - a) * (W_yn + b * np.outer(W_yn @ np.linalg.solve(M, dy), dy))
        M = W_yn.T @ W_yn
        W_xy = W_xy + M @ T @ V
        c = inp.averaging()
        mean_xy, mean_M = mean_xy + c * (W_xy - mean_xy), mean_M + c * (M - mean_M)
        outputs.append(y)
        q_sum += q
        if t % 100 == 0:
            size, q_sum = q_sum / (100 * len(u)), 0
            if "spectrum" in guards:
                scale = max(size, 0.01) if 0 < size < 0.05 else 1
                W_xy, W_yn = scale * W_xy, np.sqrt(scale) * W_yn
                M = W_yn.T @ W_yn
                inp.floor()
                V = np.linalg.solve(M, W_xy)
                M, root = lifted(M)
                if root is not None:
                    W_yn = np.vstack([root, np.zeros((len(W_yn) - len(M), len(M)))])
                W_xy = M @ V
            if "silent" in guards:
                sign = flips(np.linalg.solve(M, W_xy), inp.u_bar)
                W_xy, W_yn, M = sign[:, None] * W_xy, sign * W_yn, np.outer(sign, sign) * M
                if (sign < 0).any():
                    mean_xy, mean_M = W_xy, M
    return np.array(outputs), {"W_xy": W_xy, "W_yn": W_yn, "W_xy_mean": mean_xy, "M_mean": mean_M}


def cone_network(X, W_xz, W_zz, rates, *, kappa=None, inp=None, size=None, horizon=None, guards=(), gradient=None):
    """The network for correlated sources: natural steps with a NaturalInput `inp`, else local with the mean `size` of x'x/d.

    Returns outputs, weights and averaged weights, and the hardness of each wall.
    """
    W_xz, Q = np.array(W_xz, float), W_zz - np.eye(len(W_zz))
    d, k = W_xz.shape
    log_kappa, p, m, q = np.full(d, np.log(10.0)), np.ones(d), np.ones(d), np.full(d, 1 / 0.75)
    mean_xz, mean_Q = W_xz, Q
    outputs = []
    for t, (x, eta) in enumerate(zip(X, rates, strict=True), 1):
        u = x if inp is None else inp.F @ x
        c = W_xz @ u
        z = settle_lcp(np.eye(d) + Q, c) if gradient is None else settle_lateral(np.eye(d) + Q, c, *gradient)
        v = c - Q @ z
        if inp is None:
            w_mean = 1 / (t + k if horizon is None else min(t + k, horizon))
            size = size + w_mean * (min(u @ u / d, 25 * size) - size)
            P = np.eye(k) / size
        else:
            _, _, share = inp.observe(u)
            P = np.linalg.inv(inp.C + np.outer(inp.u_bar, inp.u_bar))
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
                s = min(np.sqrt(hard) * w * -v[i], 5 * np.sqrt(q[i] / (p[i] + 0.01)))
                z_bar = w * (z.sum() - z[i]) / max(d - 1, 1)
                if z_bar > 0:
                    p[i] += 0.01 * (z_bar**3 - p[i])
                    m[i] += 0.01 * (z_bar**3 * s - m[i])
                    q[i] += 0.01 * ((z_bar**3 + 0.01) * s**2 - q[i])
                    harder = kappa is not None or m[i] ** 2 > 0.57 * p[i] * q[i]
                    log_kappa[i] += eta / (5 * d) * (1 if harder else -1)
                    log_kappa[i] = np.clip(log_kappa[i], np.log(10), max(top, np.log(10)))
            a, b = eta / (hard * d), eta / (np.sqrt(hard) * d) * (3 if inp is None else 1)
            for j in range(d):
                if j != i:
                    new_Q[i, j] = Q[i, j] + a * (w * z[j] * (1 - np.sqrt(hard) * s) - Q[i, j])
            dendrite[i] = W_xz[i] * (1 + b * w * np.abs(v).mean() * (1 - min(abs(v[i]), 5)))
            dendrite[i] += b * (v[i] - c[i]) * (P @ u) / (1 + b * (u @ P @ u))
        W_xz, Q = dendrite, new_Q
        if inp is None:
            far = horizon is not None and t > horizon
            weight = min(1, 11 / horizon) if far else 11 / (t + 10)
        else:
            weight = inp.averaging()
        mean_xz, mean_Q = mean_xz + weight * (W_xz - mean_xz), mean_Q + weight * (Q - mean_Q)
        outputs.append(z)
        if inp is not None and t % 100 == 0 and "spectrum" in guards:
            inp.floor()
    W_zz, mean_zz = np.eye(d) + Q, np.eye(d) + mean_Q
    weights = {"W_xz": W_xz, "W_zz": W_zz, "W_xz_mean": mean_xz, "W_zz_mean": mean_zz, "wall.log_kappa": log_kappa}
    return np.array(outputs), weights


def lifted(M):
    """M with eigenvalues of at least 1 % of the largest, and its root, if some are far smaller; else M and None."""
    if np.linalg.inv(M).diagonal().max() * M.diagonal().mean() < 1e3:
        return M, None
    lam, Q = np.linalg.eigh(M)
    lam = np.maximum(lam, 0.01 * lam.max())
    return (Q * lam) @ Q.T, (Q * np.sqrt(lam)) @ Q.T


# ---------------------------------------------------------------------------------------------- StreamingNICA


def log_inverse_correlation(C):
    """log tr(K^-1)/d of the correlation matrix K of outputs with the covariance C, after 0.01 is added to each variance."""
    C = C + 0.01 * np.eye(len(C))
    return np.log(np.trace(np.linalg.inv(C / np.sqrt(np.outer(np.diag(C), np.diag(C))))) / len(C))


class Blocks:
    """What past blocks of outputs were like: means and mean deviations of their correlation and of their negative share."""

    def __init__(self):
        self.n, self.mean, self.spread = 0, np.zeros(2), np.zeros(2)

    def is_unusual(self, correlation, negative, horizon):
        now = np.array([correlation, negative])
        correlated, negative = now > [0.05, 0.01] + [1, 3] * self.mean + 15 * self.spread
        unusual = self.n >= (8 if horizon else 16) and (correlated or (negative and now[0] > self.mean[0]))
        self.n += 1
        off = now - self.mean
        self.mean = self.mean + off / min(self.n, 50)
        self.spread = self.spread + (abs(off) - self.spread) / min(self.n, 50)
        return bool(unusual)


class OrthantRotation:
    """The rule of StreamingNICA, one sample at a time: running whitening V C V' = I and the rotation into the orthant.

    `F` is None where there are as many mixtures as sources.
    """

    def __init__(self, V, F=None, horizon=0):
        self.d = len(V)
        self.V, self.F, self.h = V.copy(), F, horizon
        self.k = self.d if F is None else F.shape[1]
        self.x_last, self.run, self.share = np.zeros(self.k), 0, 0.0
        self.changed, self.restarts = False, 0
        self.begin()

    def begin(self):
        d = self.d
        self.D, self.v_bar, self.x_bar, self.P = np.eye(d), np.zeros(d), np.zeros(self.k), np.zeros((self.k, d))
        self.age = self.n = self.m = self.power = self.prior = self.removed = self.due = 0.0
        self.outside = 0.0
        self.block, self.negatives, self.past = [], [], Blocks()
        self.level, self.r = 1.0, np.array([10.0 * d, 10.0 * d])

    def step(self, x):
        """Learn from x; returns the output that was made before learning."""
        d, h = self.d, self.h
        u = x if self.F is None else self.F @ x
        v = self.V @ u
        y = np.maximum(self.D @ v, 0) if self.power > 0 else np.zeros(d)
        energy = d + self.v_bar @ self.v_bar
        if 0 < v @ v and self.age < 100 * d:
            y *= min(1, np.sqrt((2 + self.age / d) * energy / (v @ v)))

        self.run = self.run + 1 if np.array_equal(x, self.x_last) else 0
        self.x_last = x
        if self.run * (1 - self.share) > 30:
            return y
        if self.power == 0:  # the first sample sets the scale
            if not v @ v > 0:
                return y
            self.scale(u)
            return y

        if self.age < d + 6 and v @ v > 30 * energy:  # the first sample was too small
            self.restart()
            self.scale(u)
            return y

        # the weight of the sample
        dv = v - self.v_bar
        q = dv @ dv
        window = 100 + 10 * d
        if self.run == 0 and v @ v > 0 and self.age < 200 * d:
            self.level += max(1 / window, 3 / (self.age + 3)) * (min(v @ v / energy, 1) - self.level)
        tau = 1.5 * self.r[1] * np.clip(self.r[1] / self.r[0], 1, 4) ** 2
        g = min(1, tau / q) ** 2 if q > 0 else 1.0
        s = max(0.05, 1 / (1 + self.age / (30 * d)))
        self.r *= np.where(q > self.r, 1 + s, 1 - s * np.array([0.02, 0.005]))
        self.block.append((dv, np.sqrt(g)))
        if self.F is not None:
            dx = x - self.x_bar
            du = self.F @ dx
            rest = max(dx @ dx - du @ du, 1e-13 * (dx @ dx))
            self.outside = self.outside or rest
            g = min(g, min(1, 12 * self.outside / rest) ** 2 if rest > 0 else 1)
            self.outside *= 1 + s if rest > self.outside else 1 - s * 0.005
        self.age += g
        self.n = min(self.n + g, h or np.inf)
        w, m = g / self.n, g / min(self.age, h or np.inf)
        self.prior *= 1 - w
        self.share += w * ((self.run > 0) - self.share)
        if self.F is not None:
            self.P += g * np.outer(dx, du)
            self.x_bar = self.x_bar + m * dx

        # whitening
        w2 = w * (1 - m) / (1 - w)
        B = np.eye(d) + ((1 / np.sqrt(1 + w2 * q) - 1) / q if q > 0 else 0) * np.outer(dv, dv)
        B /= np.sqrt(1 - w)
        self.V, v, self.v_bar = B @ self.V, B @ v, B @ (self.v_bar + m * dv)

        # average and turn
        c = max(6 / (self.age + 5), min(1, 6 / h) if h else 0)
        self.D = (1 - c) * self.D + c * np.eye(d)
        p, e = np.maximum(v, 0), np.minimum(v, 0)
        energy = d + self.v_bar @ self.v_bar
        negative, flip = 0.0, False
        if e @ e > (64 * np.finfo(float).eps) ** 2 * (v @ v) and p @ p > 0:
            negative = min(g * (e @ e) / energy, 1)
            self.m = min(self.m + 1, h or np.inf)
            a, b = p / np.linalg.norm(p), e / np.linalg.norm(e)
            tan = np.linalg.norm(e) / (np.linalg.norm(v) + np.linalg.norm(p))
            tan *= (
                (1 + (1 + d / (d + 20)) * self.age / (self.age + 1000) / (1 + (2 * tan / 0.3) ** 2))
                * 1.3 * (v @ v) / (v @ v + 0.3 * energy)
                * g / np.sqrt(1 + self.m / (500 * max(d, 20)))
            )  # fmt: skip
            phi = 2 * np.arctan(tan)
            R = np.eye(d) + (np.cos(phi) - 1) * (np.outer(a, a) + np.outer(b, b))
            R += np.sin(phi) * (np.outer(a, b) - np.outer(b, a))
            self.V, self.v_bar, self.D = R @ self.V, R @ self.v_bar, self.D @ R.T
        elif not p @ p > 0 and v @ v > 0:
            negative, flip = 1.0, True

        # watch
        self.negatives.append(negative)
        lost, different = self.level < 1e-4 and self.age > 10, False
        if not lost and len(self.block) >= min(max(300 + 30 * d, h / 4), 10 * (300 + 30 * d)):
            dv, weight = np.array([dv for dv, _ in self.block]), np.array([weight for _, weight in self.block])
            C, mean, share = (dv.T * weight) @ dv / len(dv), weight @ dv / len(dv), sum(self.negatives) / len(dv)
            self.block, self.negatives = [], []
            variances = np.diag(C) - mean**2
            if np.trace(C) > 0 and self.prior * self.power * (self.V**2).sum(axis=0).max() <= 0.1:
                different = self.past.is_unusual(log_inverse_correlation(C - np.outer(mean, mean)), share, h)
                if h and self.past.n > 1:
                    different |= np.trace(C) > 10 * d or variances.sum() < 1e-4 * d
        if lost or (different and h):
            self.restart()
        else:
            self.changed |= different
            if self.age >= self.due:
                self.upkeep()
            elif flip and self.v_bar.sum() < 0:
                self.V, self.v_bar, self.D = -self.V, -self.v_bar, np.eye(d)
        return y

    def restart(self):
        L = np.linalg.cholesky(self.V @ self.V.T)
        self.V = np.linalg.solve(L, self.V)  # the rows of V, orthonormal
        self.restarts += self.age >= self.d + 6
        blocks = min(self.past.n, 1)
        self.begin()
        self.past.n = blocks

    def scale(self, u):
        d = self.d
        self.power, self.prior, self.n, self.due = u @ u / d, 1.0, d + 6.0, 3.0 * d
        self.V = self.V / np.sqrt(self.power)

    def end_start(self):
        self.prior = 0.0
        if self.age < self.n:
            self.V, self.v_bar = (np.sqrt(self.age / self.n) * a for a in (self.V, self.v_bar))
            self.n = self.age

    def upkeep(self):
        d = self.d
        turns = self.F is not None and self.age >= 20 * d
        if turns and self.prior > 0:
            for _ in range(6):
                self.add(-0.99 * self.prior * self.power)
                self.prior *= 0.01
            self.end_start()
        if self.prior > 0:
            share = 0.5 if self.removed == 0 else 1 - (self.removed / self.age) ** 3
            share = 0.99 if self.age > 100 * d else share
            if self.prior * self.power * (self.V**2).sum(axis=0).max() > 0.5:
                share = min(share, 0.5)
            self.removed = self.age
            self.add(-share * self.prior * self.power)
            self.prior *= 1 - share
            if self.prior < 1e-16:
                self.end_start()
        self.add(0.25 * (1e-10 if self.h else 1e-16) * self.power)
        self.due = self.age + max(d, 0.2 * self.age if self.prior > 0 else 0.25 * self.n)
        if turns:
            A = self.P @ self.V.T
            U, T = np.linalg.qr(A)
            U, T = U * np.sign(np.diag(T)), T * np.sign(np.diag(T))[:, np.newaxis]
            self.P[:] = 0
            if (np.diag(T) ** 2 > 1e-26 * (A**2).sum(axis=0)).all():
                self.V, self.F = self.V @ self.F @ A @ np.linalg.inv(T), U.T
                self.v_bar = self.V @ (self.F @ self.x_bar)

    def add(self, w):
        """C <- C + w I."""
        for j in range(self.d):
            dv = self.V[:, j].copy()
            q = dv @ dv
            if abs(w * q) >= 1e-12:
                B = np.eye(self.d) + (1 / np.sqrt(1 + w * q) - 1) / q * np.outer(dv, dv)
                self.V, self.v_bar = B @ self.V, B @ self.v_bar

    @property
    def components(self):
        """polar(D) V F."""
        U, _, W = np.linalg.svd(self.D)
        V = U @ W @ self.V
        return V if self.F is None else V @ self.F
