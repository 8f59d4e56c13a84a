"""Models: the GLM, its training, quantization and generation. Takes tensors, paths and callbacks; never the store."""
