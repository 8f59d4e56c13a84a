"""The artifact store: on a local directory, or in a bucket of any S3 endpoint with a local cache."""
