"""Operations endpoints as a second source of throughput."""
