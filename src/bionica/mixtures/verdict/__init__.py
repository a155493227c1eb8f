"""Whether to believe a fit: functions of matrices and data, which estimators call."""

from bionica.mixtures.verdict.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
