/** Chat templates by mergekit's names, in the formats of its files. */
export const TEMPLATES: Readonly<Record<string, string>> = {
  alpaca:
    "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] | trim + '\\n\\n' }}" +
    "{% elif message['role'] == 'user' %}{{ '### Instruction:\\n' + message['content'] | trim + '\\n\\n' }}" +
    "{% else %}{{ '### Response:\\n' + message['content'] | trim + '\\n\\n' }}{% endif %}{% endfor %}" +
    "{% if add_generation_prompt %}{{ '### Response:\\n' }}{% endif %}",
  chatml:
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}" +
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
  exaone:
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '[|system|][|endofturn|]\\n' }}{% endif %}" +
    "{{ '[|' + message['role'] + '|]' + message['content'] }}{{ '\\n' if message['role'] == 'user' else '[|endofturn|]\\n' }}" +
    "{% endfor %}{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}",
  llama3:
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}" +
    "{{ message['content'] | trim + '<|eot_id|>' }}{% endfor %}" +
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
  mistral:
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}" +
    "{% elif message['role'] == 'user' %}{{ ' [INST] ' }}{% if loop.index0 == 1 and messages[0]['role'] == 'system' %}" +
    "{{ messages[0]['content'] + '\\n\\n' }}{% endif %}{{ message['content'] + ' [/INST]' }}{% endif %}{% endfor %}",
};
