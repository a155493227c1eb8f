"""All samples at once: whitening, rotation, missing values, and their estimators."""
