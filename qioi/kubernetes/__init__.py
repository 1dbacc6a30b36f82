"""QiOi on Kubernetes: one daemon a node, pods as components, policies as `IsolationPolicy` objects."""
