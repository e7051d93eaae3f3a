"""Renders chat templates with transformers and writes tests/golden/chat_templates.json.

    python tests/golden/make_chat_golden.py        # needs: pip install transformers jinja2

The templates are ours, written in the manner of published ones.
"""

import json
from pathlib import Path

from jinja2.exceptions import TemplateError, UndefinedError
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
    "reasoning": """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}
        {{- "\\n" ~ (tool | tojson) }}
    {%- endfor %}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "headers": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start|>' + message['role'] + "
               "'<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token | "
               "default('<s>', true) + content %}{% endif %}{{ content }}{% endfor %}{{ '<|start|>assistant<|end|>\\n\\n' }}",
    "flags": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif -%}
{% set ns = namespace(is_first=true, system='', count=0) %}
{%- for message in messages %}{% if message['role'] == 'system' %}{% set ns.system = ns.system + message['content'] %}{% endif %}{% endfor -%}
{{ ns.system }}
{%- for message in messages if message.role != 'system' %}
{%- set ns.count = ns.count + 1 -%}
{%- if message['role'] == 'user' -%}
<|User|>{{ message['content'] }}
{%- elif message['role'] == 'assistant' and message['content'] is not none -%}
<|Assistant|>{{ message['content'].split('</think>')[-1] }}<|end|>
{%- endif %}
{%- if loop.last and message.role in ('user', 'tool') and add_generation_prompt %}<|Assistant|>{% endif %}
{%- endfor %} {{ ns.count }}{{ ' many' if ns.count is odd else ' even' }}
""",
    "text": """{{ '\\u3000x\\xa0' | trim }}|{{ '。永。'.strip('。') }}|{{ '永、'.rstrip('、') }}|{{ 'äß' | upper }}|{{ 'ÄÖ'.lower() }}
{{ 'a b c'.split(' ', 1)[1] }}|{{ ' a  b '.split() | join('-') }}|{{ 'aaa'.replace('a', 'b', 2) }}|{{ 'uSER' | capitalize }}
{{ {'b': 1, 'a': ['x', {}]} | tojson }}{{ {'b': 1, 'a': ['x', {}]} | tojson(indent=2) }}
{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %}{% for x in nothing %}never{% endfor %}{{ nothing | length }}{{ 'a' in nothing }}
{{ true == 1 }}{{ 1.0 == 1 }}{{ [1] == [1.0] }}{{ 'x' is eq 'x' }}{{ 6 is divisibleby 3 }}{{ 1 is in [1, 2] }}
{{ messages | map(attribute='role') | join(',') }}|{{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ messages | rejectattr('role', '==', 'user') | map(attribute='role') | join }}|{{ messages[-1].get('name', 'nobody') }}
{{ '永和九'[1:] }}{{ '永和'[::-1] }}{{ messages | first | items | list | length }}{{ 'x'.startswith(('y', 'x')) }}
{% generation %}said{% endgeneration %}

""",
    "undefined": "{{ messages[0].nope.deeper }}",
}

# Keys in order: the objects of a request are sorted by then, which shows in tojson alone.
CHATS = {
    "one": [{"content": "Hello", "role": "user"}],
    "turns": [{"content": " Hi \n", "role": "user"}, {"content": "<think>\nhm</think>\n\nYes. 🙂", "role": "assistant"},
              {"content": "永和九年?", "role": "user"}],
    "system": [{"content": "Be brief.", "role": "system"}, {"content": "a < b & c", "role": "user"}],
    "tools": [{"content": "2+2?", "role": "user"},
              {"content": "", "role": "assistant", "tool_calls": [{"function": {"arguments": {"a": 2}, "name": "add"}},
                                                                  {"arguments": "{}", "name": "now"}]},
              {"content": "4", "role": "tool"}, {"content": "noon", "role": "tool"},
              {"content": "Four.", "reasoning_content": "\nadd\n", "role": "assistant"}],
    "odd_role": [{"content": "x", "role": "user"}, {"content": "y", "role": "robot"}],
}


def render(template, messages, prompt):
    try:
        return {"text": compile_template(template).render(messages=messages, add_generation_prompt=prompt)}
    except TemplateError as error:  # what raise_exception says
        return {"error": "" if isinstance(error, UndefinedError) else str(error)}
    except TypeError:
        return {"error": ""}


def main():
    cases = [{"name": f"{name}/{chat}/{prompt}", "template": template, "messages": messages, "add_generation_prompt": prompt,
              **render(template, messages, prompt)}
             for name, template in TEMPLATES.items() for chat, messages in CHATS.items() for prompt in (False, True)]
    OUT.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
