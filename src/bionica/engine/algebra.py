"""What the learning rules share: products, running means, Hebbian updates, averaged
weights.

Loops index X[row, j] in place: at d = 3 slicing X[row] costs more than the whole step.
"""

from bionica.engine.rule import cold, hot, ordered

#: gamma of the averaged weights.
AVERAGING = 10.0
#: Averages reach back over all samples.
FOREVER = 2**62


@hot
def dot(A, i, v):
    """The sum of A_ij v_j over j."""
    s = A.dtype.type(0)
    for j in range(v.shape[0]):
        s += A[i, j] * v[j]
    return s


@hot
def dot_rows(A, i, B, j, n):
    """The sum of A_ip B_jp over the first n p."""
    s = A.dtype.type(0)
    for p in range(n):
        s += A[i, p] * B[j, p]
    return s


@hot
def dot_vectors(a, b):
    """The sum of a_i b_i."""
    s = a.dtype.type(0)
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


@hot
def absolute_sum(v):
    """The sum of |v_i|: finite only if every v_i is."""
    s = v.dtype.type(0)
    for i in range(v.shape[0]):
        s += abs(v[i])
    return s


@hot
def project(W, X, row, c):
    """c <- W x."""
    for i in range(W.shape[0]):
        c[i] = dot_rows(W, i, X, row, W.shape[1])


@hot
def apply(W, v, c):
    """c <- W v."""
    for i in range(W.shape[0]):
        c[i] = dot(W, i, v)


@ordered
def apply_transposed(W, v, c):
    """c <- W'v."""
    for j in range(W.shape[1]):
        c[j] = 0
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            c[j] += W[i, j] * v[i]


@cold
def multiply(A, B, M):
    """M <- A B."""
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            M[i, j] = 0
        for p in range(B.shape[0]):
            for j in range(M.shape[1]):
                M[i, j] += A[i, p] * B[p, j]


@hot
def mean_weight(X, t, window):
    """Weight of sample number t (from 1) in a running mean: 1/t, and never below
    1/window where one is set (> 0).

    In the precision of X.
    """
    if window > 0 and t > window:
        t = window
    return X.dtype.type(1) / X.dtype.type(t)


@hot
def follow(mean, v, weight):
    """mean <- mean + weight (v - mean)."""
    weight = mean.dtype.type(weight)
    for i in range(mean.shape[0]):
        mean[i] += weight * (v[i] - mean[i])


@hot
def follow_input(mean, X, row, weight):
    """mean <- mean + weight (x - mean)."""
    weight = mean.dtype.type(weight)
    for j in range(mean.shape[0]):
        mean[j] += weight * (X[row, j] - mean[j])


@hot
def subtract(v, mean, out):
    """out <- v - mean."""
    for i in range(v.shape[0]):
        out[i] = v[i] - mean[i]


@hot
def distance(X, row, x_bar):
    """|x - x_bar|^2."""
    s = x_bar.dtype.type(0)
    for j in range(x_bar.shape[0]):
        s += (X[row, j] - x_bar[j]) * (X[row, j] - x_bar[j])
    return s


@hot
def hebb_input(W, eta, post, X, row, x_bar):
    """W <- W + eta (post (x - x_bar)' - W)."""
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        a = eta * post[i]
        for j in range(W.shape[1]):
            W[i, j] += a * (X[row, j] - x_bar[j]) - eta * W[i, j]


@hot
def hebb(W, eta, post, pre):
    """W <- W + eta (post pre' - W), with the same bits as the transpose of W has with
    post and pre exchanged.
    """
    eta = W.dtype.type(eta)
    for i in range(W.shape[0]):
        a = post[i]
        for j in range(W.shape[1]):
            W[i, j] += eta * (a * pre[j] - W[i, j])


@hot
def follow_matrix(mean, W, weight):
    """mean <- mean + weight (W - mean)."""
    weight = mean.dtype.type(weight)
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            mean[i, j] += weight * (W[i, j] - mean[i, j])


@hot
def averaging_weight(n):
    """c of the averaged weights, mean <- mean + c (W - mean), after n samples: (gamma +
    1)/(n + gamma) with gamma = 10.
    """
    return (AVERAGING + 1.0) / (n + AVERAGING)
