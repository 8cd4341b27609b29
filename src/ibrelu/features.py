"""Random high-dimensional data: features, exact Gram matrices, labels."""
