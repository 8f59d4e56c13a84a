"""An OpenAI-compatible HTTP server that knows only the protocol of an engine, never a model."""
