"""The objectives that the networks are derived from, by the paper's equation numbers; rows are samples.

    (1)         whitening_objective         -Tr(dY'dY dX'dX), minimal over cov(Y) <= I, Y = F X at a noncentered whitening of X
    (2)         nsm_objective               |Z'Z - Y'Y|_F^2, minimal over Z >= 0 where Z is a rotation of the whitened Y
    (3)         whitening_objective         the same as (1) over Y >= 0: its minimum is a permutation of the sources
    (4)         combined_nsm_objective      |Z'Z - X' C_xx^+ X|_F^2, minimal over Z >= 0 at a permutation of the sources
    (5)         interneuron_objective       L_1, the min-max form of (3)
    (11), (12)  two_compartment_objective   L_2, the min-max form of (4) as expanded in (10)

Here d. means centred over the samples and C_xx^+ is the Moore-Penrose inverse. None of them forms a T x T matrix.

*Erratum.* Appendix A writes the inner problem of L_1 as (2/T) Tr(dN' W_yn dY - dY' W_xy dX - dN'dN) in (20), and the same
without centring in (21). With the stated solution N = W_yn Y (19) the last term needs a factor 1/2, as in L_1 itself. And
Y* = P X in the proof of the first lemma should read Y* = P S.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .whitening import linear_map, moments, whitening

Array = NDArray[Any]


def _centred(X: Array) -> Array:
    return np.asarray(X - X.mean(axis=0))


def whitening_objective(Y: Array, X: Array) -> float:
    """Objective (1), and (3) if Y is nonnegative: `-Tr(dY'dY dX'dX) = -|dY dX'|_F^2`.

    Examples
    --------
    >>> from bionica import NoncenteredWhitener, datasets
    >>> X, _ = datasets.mix(datasets.sparse_uniform(1000, 2, rng=0), rng=0)
    >>> Y = NoncenteredWhitener().fit_transform(X)  # minimal at a whitening, whose covariance is I
    >>> whitening_objective(Y, X) < whitening_objective(0.9 * Y, X)
    True
    """
    return -float(np.sum((_centred(Y).T @ _centred(X)) ** 2))


def whitening_excess(Y: Array) -> float:
    """By how much Y violates the constraint dY'dY <= T I of (1) and (3): the largest eigenvalue of cov(Y) - I, at least 0.

    Examples
    --------
    >>> whitening_excess(np.array([[0.0, 0.0], [4.0, 2.0]]))
    4.0
    """
    dY = _centred(Y)
    return max(0.0, float(np.linalg.eigvalsh(dY.T @ dY / len(Y))[-1]) - 1)


def nsm_objective(Z: Array, Y: Array) -> float:
    """Objective (2), nonnegative similarity matching: `|Z'Z - Y'Y|_F^2`.

    With [Z Y] = Q [R_z R_y] and orthonormal columns of Q, it equals `|R_z R_z' - R_y R_y'|_F^2`, which needs no T x T matrix and
    does not cancel near the minimum.

    Examples
    --------
    >>> Y = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 2.0]])
    >>> R = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    >>> Z = Y @ R.T  # a rotation into the quadrant
    >>> bool(Z.min() > -1e-12), nsm_objective(Z, Y) < 1e-12
    (True, True)
    """
    R: Array = np.asarray(np.linalg.qr(np.hstack([Z, Y]), mode="r"))
    R_z, R_y = R[:, : Z.shape[1]], R[:, Z.shape[1] :]
    return float(np.sum((R_z @ R_z.T - R_y @ R_y.T) ** 2))


def combined_nsm_objective(Z: Array, X: Array, n_components: int | None = None) -> float:
    """Objective (4): `|Z'Z - X' C_xx^+ X|_F^2`, where C_xx^+ has rank `n_components` (by default that of C_xx).

    Examples
    --------
    >>> from bionica import BatchNICA, datasets
    >>> X, _ = datasets.mix(datasets.sparse_uniform(1000, 2, rng=0), rng=0)
    >>> Z = BatchNICA(2, random_state=0).fit_transform(X)
    >>> combined_nsm_objective(Z, X) < 0.01 * combined_nsm_objective(X.clip(0), X)
    True
    """
    return nsm_objective(Z, linear_map(X, whitening(moments(X), n_components).matrix))


def interneuron_objective(Y: Array, N: Array, W_xy: Array, W_yn: Array, X: Array) -> float:
    """L_1 of (5), minimised over Y (n_samples, d) and W_xy (d, k), maximised over N (n_samples, m) and W_yn (m, d).

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> interneuron_objective(X, np.zeros((2, 2)), np.eye(2), np.zeros((2, 2)), X)
    -2.0
    """
    dX, dY, dN = _centred(X), _centred(Y), _centred(N)
    T = len(X)
    activity = 2 * np.sum(dN * (dY @ W_yn.T)) - 2 * np.sum(dY * (dX @ W_xy.T)) - np.sum(dN**2)
    return float(activity / T - np.sum(W_yn**2) + np.sum(W_xy**2))


def two_compartment_objective(Z: Array, W_xz: Array, W_zz: Array, X: Array) -> float:
    """L_2 of (12), minimised over Z (n_samples, d) and W_xz (d, k), maximised over W_zz (d, d).

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> two_compartment_objective(X, np.eye(2), np.eye(2), X)
    -12.0
    """
    T = len(X)
    C_xx = moments(X).covariance
    activity = np.sum(Z * (Z @ W_zz)) - 2 * np.sum(Z * (X @ W_xz.T))
    return float(2 / T * activity - np.sum(W_zz**2) + 2 * np.sum((W_xz @ C_xx) * W_xz))
