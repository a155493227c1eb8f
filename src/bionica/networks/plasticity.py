"""What the learning rules share: sums, projections, running means and Hebbian outer products.

Loops index X[t, j] in place: at d = 3 slicing X[t] costs more than the whole step.
"""

from .generic import SHORT, fma, hot, sums


@hot
def dot(A, i, v):
    """The sum of A_ij v_j over j."""
    n = v.shape[0]
    if n >= SHORT:
        return _long_dot(A, i, v)
    s = A[i, 0] * v[0]
    for j in range(1, n):
        s = fma(A[i, j], v[j], s)
    return s


@sums
def _long_dot(A, i, v):
    s = A[i, 0] * v[0]
    for j in range(1, v.shape[0]):
        s += A[i, j] * v[j]
    return s


@hot
def dot_rows(A, i, B, j, n):
    """The sum of A_ip B_jp over the first n p."""
    if n >= SHORT:
        return _long_dot_rows(A, i, B, j, n)
    s = A.dtype.type(0)
    for p in range(n):
        s = fma(A[i, p], B[j, p], s)
    return s


@sums
def _long_dot_rows(A, i, B, j, n):
    s = A.dtype.type(0)
    for p in range(n):
        s += A[i, p] * B[j, p]
    return s


@hot
def size(v):
    """The sum of |v_i|: finite only if every v_i is."""
    s = v.dtype.type(0)
    for i in range(v.shape[0]):
        s += abs(v[i])
    return s


@hot
def project(W, X, t, c):
    """c <- W x_t."""
    for i in range(W.shape[0]):
        c[i] = dot_rows(W, i, X, t, W.shape[1])


@hot
def apply(W, v, c):
    """c <- W v."""
    for i in range(W.shape[0]):
        c[i] = dot(W, i, v)


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
        mean[i] = fma(weight, v[i] - mean[i], mean[i])


@hot
def follow_input(mean, X, t, weight):
    """mean <- mean + weight (x_t - mean)."""
    weight = mean.dtype.type(weight)
    for j in range(mean.shape[0]):
        mean[j] = fma(weight, X[t, j] - mean[j], mean[j])


@hot
def hebb(W, eta, post, post_bar, pre, pre_bar):
    """W <- W + eta ((post - post_bar)(pre - pre_bar)' - W)."""
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        a = post[i] - post_bar[i]
        for j in range(W.shape[1]):
            W[i, j] = fma(eta, fma(a, pre[j] - pre_bar[j], -W[i, j]), W[i, j])


@hot
def hebb_input(W, eta, post, post_bar, X, t, x_bar):
    """W <- W + eta ((post - post_bar)(x_t - x_bar)' - W)."""
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        a = post[i] - post_bar[i]
        for j in range(W.shape[1]):
            W[i, j] = fma(eta, fma(a, X[t, j] - x_bar[j], -W[i, j]), W[i, j])


@hot
def hebb_raw(W, eta, post, pre):
    """W <- W + eta (post pre' - W), uncentred."""
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            W[i, j] = fma(eta, fma(post[i], pre[j], -W[i, j]), W[i, j])
