"""Renders chat templates with transformers and writes tests/golden/chat_templates.json.

    python tests/golden/make_chat_golden.py        # needs: pip install transformers jinja2

The templates are ours, written in the manner of published ones.
"""

import json
from pathlib import Path

from transformers.utils.chat_template_utils import _compile_jinja_template as compile_template

OUT = Path(__file__).resolve().parent / "chat_templates.json"

TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' "
              "+ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "default_system": """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- set rest = messages[1:] %}
{%- else %}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
    {%- set rest = messages %}
{%- endif %}
{%- for message in rest %}
    {%- if message.role in ['user', 'assistant'] and message.content is string %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content | trim ~ '<|im_end|>\\n' }}
    {%- else %}
        {{- raise_exception('unknown role ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "last_query": """{%- set ns = namespace(last=messages|length - 1, seen=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.seen and message.role == "user" and not message.content.startswith('<tool>') %}
        {%- set ns.seen = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if loop.index0 > ns.last or loop.last %}[late]{%- endif %}
    {{- loop.index ~ '/' ~ loop.length ~ ' ' ~ message.role|upper ~ ': ' ~ content ~ '\\n' }}
{%- endfor %}
""",
    "inst": """{{ bos_token | default('<s>') }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate') }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% else %}
{{ ' ' + message['content'] | trim + '</s>' }}
{% endif %}
{% endfor %}""",
    "whitespace": """  {# a comment #}
a
  {%- if true +%}

  b
{%- endif -%}

  c  {{ 'x' -}}   d
{% for x in [1, 2.5, true, none] if x is not none %}
  {{ loop.index0 }}={{ x }}{% if not loop.last %},{% endif %}

{% else %}
nothing
{% endfor %}
{{ messages | tojson }} {{ {'k': [1, 'é']} | tojson }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 7 / 2 }} {{ -3 + 2 * 2 }}
{{ 'yes' if messages[0].name is defined else 'no' }} {{ 'abc'[1:] }} {{ 'abc'[-1] }} {{ ['a','b']|join('-') }}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %} {{ not (1 == 1 and 2 < 1) }} {{ "" or 'empty' }}""",
}

# Keys in order: our JSON objects are sorted, which shows in tojson alone.
CHATS = {
    "one": [{"content": "Hello", "role": "user"}],
    "turns": [{"content": " Hi \n", "role": "user"}, {"content": "<think>\nhm</think>\n\nYes. 🙂", "role": "assistant"},
              {"content": "永和九年?", "role": "user"}],
    "system": [{"content": "Be brief.", "role": "system"}, {"content": "a < b & c", "role": "user"}],
    "odd_role": [{"content": "x", "role": "user"}, {"content": "y", "role": "robot"}],
}


def render(template, messages, prompt):
    try:
        return {"text": compile_template(template).render(messages=messages, add_generation_prompt=prompt)}
    except Exception as error:  # what a template raises itself is part of the golden data
        return {"error": str(error)}


def main():
    cases = [{"name": f"{name}/{chat}/{prompt}", "template": template, "messages": messages, "add_generation_prompt": prompt,
              **render(template, messages, prompt)}
             for name, template in TEMPLATES.items() for chat, messages in CHATS.items() for prompt in (False, True)]
    OUT.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
