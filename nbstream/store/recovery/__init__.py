"""Recovery of lessons: what Redis has acknowledged and a failover lost is taught again."""
