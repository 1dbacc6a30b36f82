"""Who disturbs: interferers, as the lab and the experiments start them."""
