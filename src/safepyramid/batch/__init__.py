"""A run as files of requests for a batch service or a cluster, and back."""
