"""Answers out of the published index: quotes that are checked against their passages, each cited, or a refusal."""
