"""Learning rates as functions of the sample index, which counts from 0."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rate", "learning_rates"]

#: A number (the rate at sample 0) or a function of the sample index.
Rate = float | Callable[[int], float]


def learning_rates(
    eta0: Rate, decay: float, power: float, t0: int, n: int, horizon: int | None = None
) -> NDArray[np.float64]:
    """Return the learning rates of samples t0, ..., t0 + n - 1.

    Parameters
    ----------
    eta0 : float or callable
        The rate at sample 0; or a function of the sample index, called once for each sample, which then is the whole
        schedule (`decay` and `power` play no part).
    decay, power : float
        The rate at sample t is ``eta0 / (1 + decay * t) ** power``. Eq. 22 of the paper has power 1; decay 0 is a
        constant.
    t0, n : int
        Which samples.
    horizon : int, optional
        From this sample on the rate stays what it is there.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        If a function returns something that is not a finite number >= 0.

    Examples
    --------
    >>> learning_rates(0.1, 0.5, 1.0, 0, 3)
    array([0.1       , 0.06666667, 0.05      ])
    >>> learning_rates(lambda t: 0.1 if t < 2 else 0.01, 0.0, 1.0, 0, 3)
    array([0.1 , 0.1 , 0.01])
    """
    index = np.arange(t0, t0 + n, dtype=np.float64)
    if horizon is not None:
        np.minimum(index, horizon, out=index)
    if not callable(eta0):
        index *= decay
        index += 1
        if power != 1:
            index **= power
        return np.divide(eta0, index, out=index)
    try:
        rates = np.array([eta0(int(t)) for t in index], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"eta0 must return a number for every sample index: {error}") from error
    if rates.shape != (n,):
        raise ValueError(f"eta0 returned values of shape {rates.shape[1:]}; return one number for each sample index")
    bad = np.flatnonzero(~(np.isfinite(rates) & (rates >= 0)))
    if bad.size:
        raise ValueError(
            f"eta0 returned {rates[bad[0]]} for sample {t0 + bad[0]}; return a finite learning rate >= 0 for every index"
        )
    return rates
