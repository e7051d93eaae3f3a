#include "common/text/chat_template.h"
#include "tests/support/paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace lynx {
namespace {

using nlohmann::json;

TEST(ChatTemplate, EqualsTheReference) {
  std::ifstream file(source_path("tests/golden/chat_templates.json"));
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 100U);
  std::size_t errors = 0;
  for (const json& c : cases) {
    const auto rendered =
        ChatTemplate::parse(c["template"], c["name"]).render(c["messages"], c["add_generation_prompt"]);
    if (c.contains("error")) {
      ++errors;
      ASSERT_FALSE(rendered.ok()) << c["name"];
      EXPECT_NE(rendered.error().message.find(c["error"].get<std::string>()), std::string::npos)
          << c["name"] << ": " << rendered.error().message;
    } else {
      ASSERT_TRUE(rendered.ok()) << c["name"] << ": " << rendered.error().message;
      EXPECT_EQ(*rendered, c["text"].get<std::string>()) << c["name"];
    }
  }
  EXPECT_GT(errors, 0U);
}

TEST(ChatTemplate, TheShippedModelHasOne) {
  const auto chat = ChatTemplate::from_model_folder(source_path("deploy/model"));
  EXPECT_EQ(*chat.render({{{"role", "user"}, {"content", "Hi"}}}, true),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, FindsTheTemplateOfAModelFolder) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "lynx_chat_template";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder / file) << text; };
  const auto rendered = [&] {
    return *ChatTemplate::from_model_folder(folder.string()).render(json::array(), false);
  };
  std::filesystem::remove(folder / "chat_template.jinja");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "no"},
                                                       {"name": "default", "template": "{{ bos_token }}listed"}],
                                     "bos_token": {"content": "<s>"}})");
  EXPECT_EQ(rendered(), "<s>listed");
  write("chat_template.jinja", "{{ bos_token }}beside");
  EXPECT_EQ(rendered(), "<s>beside");
  std::filesystem::remove(folder / "chat_template.jinja");
  for (const char* config : {"{}", "[", R"({"chat_template": 1})"}) {
    write("tokenizer_config.json", config);
    EXPECT_THROW(ChatTemplate::from_model_folder(folder.string()), std::runtime_error) << config;
  }
  std::filesystem::remove_all(folder);
}

TEST(ChatTemplate, RefusesAtLoadWithTheLine) {
  const std::pair<const char*, const char*> bad[] = {
      {"a\n{% macro x() %}{% endmacro %}", "t:2: the tag 'macro' is not supported"},
      {"{{ x | sha1 }}", "t:1: the filter 'sha1' is not supported"},
      {"{{ x is purple }}", "t:1: the test 'purple' is not supported"},
      {"{{ x.system('ls') }}", "t:1: the method 'system' is not supported"},
      {"{{ strftime_now('%d') }}", "t:1: the function 'strftime_now' is not supported"},
      {"\n\n{% if x %}", "t:3: expected {% endif %}"},
      {"{% for x in y %}{% endif %}", "t:1: expected 'endfor'"},
      {"{% endif %}", "t:1: 'endif' stands alone"},
      {"{{ 'x }}", "t:1: a string is not closed"},
      {"{{ x ", "t:1: a tag is not closed"},
      {"{{ }}", "t:1: expected a value"},
      {"{{ x | trim(1, 2) }}", "t:1: 'trim' with 2 arguments is not supported"},
      {"{{ x | tojson(sort_keys=true) }}", "t:1: 'tojson' with 'sort_keys=' is not supported"},
      {"{{ x.split(',', maxsplit=1, 2) }}", "t:1: a named argument must be the last"},
      {"{{ 1 < x < 3 }}", "t:1: a chain of comparisons is not supported"},
      {"{% set x %}a{% endset %}", "t:1: only {% set name = value %} is supported"},
      {"{{ '\\ud83d' }}", "t:1: half of a surrogate pair is not supported"},
      {"{{ '\\q' }}", "t:1: the escape \\q is not supported"},
      {"{# never closed", "t:1: a comment is not closed"},
  };
  for (const auto& [source, message] : bad) {
    try {
      ChatTemplate::parse(source, "t");
      ADD_FAILURE() << source << " was accepted";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, std::string(message).size()), message);
    }
  }
}

TEST(ChatTemplate, NothingHangsOrOverflows) {
  const auto render = [](const std::string& source) {
    return ChatTemplate::parse(source, "t").render(json::array(), false);
  };
  const std::string loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
  EXPECT_NE(render(loops).error().message.find("runs too long"), std::string::npos);
  const std::string grow =
      "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for a in range(30) %}{% set ns.x = ns.x + ns.x %}"
      "{{ ns.x }}{% endfor %}";
  EXPECT_NE(render(grow).error().message.find("too long"), std::string::npos);
  const std::string silent =
      "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}";
  EXPECT_NE(render(silent).error().message.find("too long"), std::string::npos);
  const auto grows = [](const std::string& start, const std::string& step) {
    return "{% set ns = namespace(x=" + start + ") %}{% for a in range(60) %}{% set ns.x = " + step +
           " %}{% endfor %}";
  };
  EXPECT_NE(render(grows("[1]", "ns.x + ns.x")).error().message.find("too long"), std::string::npos);
  EXPECT_NE(render(grows("'aa'", "ns.x.replace('a', ns.x)")).error().message.find("too long"),
            std::string::npos);
  EXPECT_NE(render(grows("'aa'", "ns.x | list | join(ns.x)")).error().message.find("too long"),
            std::string::npos);
  std::string copies = "{% set x = 'a' | replace('a', '" + std::string(100'000, 'b') + "') %}";
  copies += "{% for a in range(99999) %}{% set y = [x, x] %}{% endfor %}";
  EXPECT_NE(render(copies).error().message.find("runs too long"), std::string::npos);
  std::string deep =
      "{% set ns = namespace(x=1) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}";
  EXPECT_NE(render(deep).error().message.find("nested too deeply"), std::string::npos);

  const auto repeated = [](const std::string& part) {
    std::string out = "{{ 1";
    for (int i = 0; i < 50'000; ++i) out += part;
    return out + " }}";
  };
  for (const char* part : {" + 1", " or 1", " ~ 1", " if 1 else 1", "|trim", ".x", "[1]", " is none"})
    EXPECT_THROW(static_cast<void>(render(repeated(part))), std::runtime_error) << part;
  EXPECT_THROW(
      static_cast<void>(render("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}")),
      std::runtime_error);
  EXPECT_FALSE(
      render("{{ messages[0].content }}").ok());  // an empty list: the attribute of an undefined value
  EXPECT_EQ(*render("{{ messages[0] }}{{ nothing }}"), "");
}

}  // namespace
}  // namespace lynx
