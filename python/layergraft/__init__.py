"""Merge fine-tuned language models."""
