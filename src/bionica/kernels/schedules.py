"""Learning rates as functions of the sample index, which counts from 0."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: A number (the rate at sample 0) or a function of the sample index.
Rate = float | Callable[[int], float]


class Schedule(NamedTuple):
    """Learning rates, eq. 22 of the paper with power 1: ``eta0 / (1 + decay * t) ** power``.

    Attributes
    ----------
    eta0 : float or callable
        The rate at sample 0; or a function of the sample index, called once for each sample, which then is the whole
        schedule (`decay` and `power` play no part).
    decay, power : float
        A decay of 0 is a constant rate.
    below : float
        Every rate must be below; `advice` says what to do if one is not.

    Examples
    --------
    >>> Schedule(0.1, 0.5)(0, 3)
    array([0.1       , 0.06666667, 0.05      ])
    >>> Schedule(lambda t: 0.1 if t < 2 else 0.01)(0, 3)
    array([0.1 , 0.1 , 0.01])
    """

    eta0: Any
    decay: float = 0.0
    power: float = 1.0
    below: float = np.inf
    advice: str = "lower eta0"

    def __call__(self, t0: int, n: int) -> NDArray[np.float64]:
        """The learning rates of samples t0, ..., t0 + n - 1; ValueError if one is not a number from 0 to `below`."""
        rates = np.arange(t0, t0 + n, dtype=np.float64)
        if callable(self.eta0):
            rates = self._called(rates)
        else:
            rates *= self.decay
            rates += 1
            if self.power != 1:
                rates **= self.power
            np.divide(self.eta0, rates, out=rates)
        if n and rates.max() >= self.below:
            raise ValueError(
                f"the learning rate {rates.max():g} at sample {t0 + int(rates.argmax())} is not below {self.below:g}: {self.advice}"
            )
        return rates

    def _called(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        try:
            rates = np.array([self.eta0(int(t)) for t in index], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"eta0 must return a number for every sample index: {error}") from error
        if rates.shape != index.shape:
            raise ValueError(
                f"eta0 returned values of shape {rates.shape[1:]}; return one number for each sample index"
            )
        bad = np.flatnonzero(~(np.isfinite(rates) & (rates >= 0)))
        if bad.size:
            raise ValueError(
                f"eta0 returned {rates[bad[0]]} for sample {int(index[bad[0]])}; return a finite learning rate >= 0 for every index"
            )
        return rates
