"""The Lipschitz bound: values of earlier tasks plus a distance between models."""
