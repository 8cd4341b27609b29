"""Implicit bias of gradient descent with ReLU neurons, measured against theory."""
