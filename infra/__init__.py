"""Infrastructure: artifacts, store, lineage, tracking, registry, settings. Knows nothing of models or stages."""
