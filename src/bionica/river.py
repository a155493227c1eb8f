"""bionica's online estimators as transformers of river (https://riverml.xyz), which is imported only here."""

from collections.abc import Iterator
from typing import Any

from river import base
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from . import StreamingNICA

__all__ = ["RiverTransformer"]


class RiverTransformer(base.MiniBatchTransformer):  # type: ignore[misc]
    """An estimator with `learn_one`, `transform_one` and `partial_fit`, in river's pipelines.

    Every sample needs the same features, as an unmixing matrix has a column for each of them: a missing or unknown feature raises
    ValueError, and the model is unchanged. Features are ordered by name, so their order in the samples does not matter.

    Parameters
    ----------
    estimator
        For example `StreamingNICA(3)`. It is cloned and itself stays unfitted.

    Attributes
    ----------
    model
        The clone that learns, with `components_`, `mixing_`, `diagnose`, `save` and all else.

    Examples
    --------
    >>> from bionica import StreamingNICA, datasets
    >>> X, _ = datasets.mix(datasets.sparse_uniform(500, 2, rng=0), rng=0)
    >>> separator = RiverTransformer(StreamingNICA(2, random_state=0))
    >>> for a, b in X:
    ...     separator.learn_one({"a": a, "b": b})
    >>> sorted(separator.transform_one({"b": 1.0, "a": 0.5}))
    ['source_1', 'source_2']
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.model = clone(estimator)

    def learn_one(self, x: dict[Any, float]) -> None:
        """Learn from the features of a sample."""
        self.model.learn_one(self._named(x))

    def transform_one(self, x: dict[Any, float]) -> dict[str, float]:
        """Return the sources of a sample; an empty dict before anything was learned."""
        try:
            y = self.model.transform_one(self._named(x))
        except NotFittedError:
            return {}
        return dict(zip(self.model.get_feature_names_out(), y.tolist(), strict=True))

    def learn_many(self, X: Any) -> None:
        """Learn from the rows of a pandas DataFrame, one after the other."""
        self.model.partial_fit(self._in_order(X))

    def transform_many(self, X: Any) -> Any:
        """Return the sources of the rows of a pandas DataFrame, as a DataFrame."""
        try:
            Y = self.model.transform(self._in_order(X))
        except NotFittedError:
            return X[[]]
        return type(X)(Y, index=X.index, columns=self.model.get_feature_names_out())

    def _named(self, x: dict[Any, float]) -> dict[str, float]:
        """Return x with strings for names, which river does not demand, in the order of the names."""
        return {str(name): x[name] for name in sorted(x, key=str)}

    def _in_order(self, X: Any) -> Any:
        X = X.rename(columns=str)
        known = list(getattr(self.model, "feature_names_in_", sorted(X.columns)))
        # If columns are missing or unknown, the estimator's message says which.
        return X[known] if set(known) == set(X.columns) else X

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"estimator": StreamingNICA(random_state=0)}

    def _unit_test_skips(self) -> set[str]:
        """River's checks in which features appear and disappear, as its own adapter of scikit-learn's estimators skips them."""
        return {
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
            "check_learn_many_matches_learn_one",
        }
