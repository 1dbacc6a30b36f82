"""The bundled ledger on a Kubernetes cluster: its Secrets, its images, and the demo on a real node."""
