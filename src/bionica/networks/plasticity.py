"""What the learning rules share: projections, running means and the Hebbian outer product.

Loops index X[t, j] in place: at d = 3 slicing X[t] costs more than the whole step.
"""

from .compiled import hot


@hot
def project(W, X, t, c):
    """c <- W x_t."""
    for i in range(W.shape[0]):
        s = W[i, 0] * X[t, 0]
        for j in range(1, W.shape[1]):
            s += W[i, j] * X[t, j]
        c[i] = s


@hot
def apply(W, v, c):
    """c <- W v."""
    for i in range(W.shape[0]):
        s = W[i, 0] * v[0]
        for j in range(1, W.shape[1]):
            s += W[i, j] * v[j]
        c[i] = s


@hot
def mean_weight(rates, t, window):
    """Weight of sample number t (from 1) in a running mean: 1/t, and never below 1/window where one is set (> 0).

    In the precision of the rates, as all that becomes one.
    """
    if window > 0 and t > window:
        t = window
    return rates.dtype.type(1) / rates.dtype.type(t)


@hot
def follow(mean, v, weight):
    """mean <- mean + weight (v - mean)."""
    weight = mean.dtype.type(weight)
    for i in range(mean.shape[0]):
        mean[i] += weight * (v[i] - mean[i])


@hot
def follow_input(mean, X, t, weight):
    """mean <- mean + weight (x_t - mean)."""
    weight = mean.dtype.type(weight)
    for j in range(mean.shape[0]):
        mean[j] += weight * (X[t, j] - mean[j])


@hot
def hebb(W, eta, post, post_bar, pre, pre_bar):
    """W <- W + eta ((post - post_bar)(pre - pre_bar)' - W)."""
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        a = post[i] - post_bar[i]
        for j in range(W.shape[1]):
            W[i, j] += eta * (a * (pre[j] - pre_bar[j]) - W[i, j])


@hot
def hebb_input(W, eta, post, post_bar, X, t, x_bar):
    """W <- W + eta ((post - post_bar)(x_t - x_bar)' - W)."""
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        a = post[i] - post_bar[i]
        for j in range(W.shape[1]):
            W[i, j] += eta * (a * (X[t, j] - x_bar[j]) - W[i, j])


@hot
def hebb_raw(W, eta, post, pre):
    """W <- W + eta (post pre' - W), uncentred."""
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            W[i, j] += eta * (post[i] * pre[j] - W[i, j])
