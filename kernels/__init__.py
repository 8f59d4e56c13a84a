"""Kernels: one operation a file, plain-torch reference and dispatch."""
