// Also the studio's page has this module, without the rest of the room.

/** Fields that every recipe may have. */
export const OUTPUT_FIELDS = [
  ...["dtype", "as", "lora_merge_dtype", "budget", "shard_size", "vocabulary"],
  ...["tensors", "chat_template", "tokenizer_from"],
];
