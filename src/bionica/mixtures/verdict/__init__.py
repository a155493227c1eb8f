"""Whether to believe a fit: functions of matrices and data, which estimators call."""
