"""`score` of the estimators that separate: how well they predict some mixtures from the others."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._dask import blocks_of, validated_rows

Floats = NDArray[np.float64]

_FOLDS = 10  # groups of mixtures
_BLOCK = 1 << 20  # numbers in a block of rows


class Scored:
    """Mixin: gives an estimator with `mixing_` the method `score`."""

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the share of the energy of X that is predicted from other mixtures; higher is better, 1 is the best.

        The mixtures are cut into ten groups (every tenth mixture, or one for each mixture if there are fewer). Each group is
        predicted from all others: the outputs that fit these best by least squares are clipped at 0, like those of
        `transform`, and mixed again. Noise cannot be predicted, so that outputs which follow the noise lower the score, and so
        do outputs that are clipped although they are negative. On samples that were not fitted the score is largest at the
        number of sources or near it (bi-cross-validation: Owen and Perry 2009), which `GridSearchCV` and `cross_val_score`
        can use. It needs more mixtures than outputs: with as many, a group is not determined by the others, and the score
        says little.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, best others than those of the fit. A Dask array is read block by block.
        y : None
            Ignored.

        Returns
        -------
        float
            `1 - |X - prediction|^2 / |X|^2`. It can be negative. Mixtures count by their energy: if units differ, scale them first.

        Examples
        --------
        >>> import numpy as np
        >>> from bionica import BatchNICA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.exponential(size=(2000, 3)) @ rng.standard_normal((3, 10)) + 0.1 * rng.standard_normal((2000, 10))
        >>> nica = BatchNICA(3, random_state=0).fit(X[:1000])
        >>> nica.score(X[1000:]) > 0.99
        True
        """
        self._check_is_fitted()  # type: ignore[attr-defined]
        A = np.asarray(self.mixing_, np.float64)  # type: ignore[attr-defined]
        predictors = _predictors(A)
        total = missed = 0.0
        for block in blocks_of(validated_rows(self, X, reset=False)):
            for start in range(0, len(block), max(1, _BLOCK // len(A))):
                x = block[start : start + max(1, _BLOCK // len(A))].astype(np.float64)
                total += float(np.sum(x**2))
                for group, others, inverse in predictors:
                    outputs = np.maximum(x[:, others] @ inverse.T, 0)
                    missed += float(np.sum((x[:, group] - outputs @ A[group].T) ** 2))
        return 1 - missed / total if total else float(missed == 0)


def _predictors(A: Floats) -> list[tuple[Any, Any, Floats]]:
    """For each group of mixtures: its indices, those of the others, and the pseudoinverse of their part of A."""
    k = len(A)
    if k == 1:  # nothing to predict it from: the outputs of the mixture itself
        return [(np.arange(1), np.arange(1), np.asarray(np.linalg.pinv(A), np.float64))]
    index = np.arange(k)
    groups = [index[first :: min(k, _FOLDS)] for first in range(min(k, _FOLDS))]
    others = [np.setdiff1d(index, group) for group in groups]
    return [(g, o, np.asarray(np.linalg.pinv(A[o]), np.float64)) for g, o in zip(groups, others, strict=True)]
