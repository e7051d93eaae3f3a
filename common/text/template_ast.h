// The syntax tree of a chat template.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lynx::jinja {

// A value of the template language, objects in the order they were made. json's `discarded` state stands for
// Jinja's undefined.
using Value = nlohmann::ordered_json;

inline Value undefined() { return Value(Value::value_t::discarded); }

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kLiteral,      // value
    kName,         // name
    kList,         // children
    kDict,         // children: key, value, key, value ...
    kAttribute,    // children[0] . name
    kItem,         // children[0] [ children[1] ]
    kSlice,        // children[0] [ children[1] : children[2] : children[3] ], absent ones null
    kCall,         // a global function: name ( children, keywords )
    kMethod,       // children[0] . name ( children[1..] )
    kFilter,       // children[0] | name ( children[1..] )
    kTest,         // children[0] is name ( children[1..] )
    kUnary,        // name: not - +
    kBinary,       // name: or and == != < > <= >= in + - * / // % ~
    kConditional,  // children[0] if children[1] else children[2] (may be null)
  };
  Kind kind = Kind::kLiteral;
  int line = 0;
  int height = 1;  // of the tree under it
  std::string name;
  Value value;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;  // of namespace()
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

struct Statement {
  enum class Kind {
    kText,    // text
    kOutput,  // expression
    kIf,      // branches
    kFor,     // names in expression [if filter]: branches[0], else branches[1]
    kSet,     // names[0] = expression, or names[0].names[1] = expression for a namespace
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text;
  std::vector<std::string> names;
  ExpressionPtr expression, filter;
  std::vector<Branch> branches;
};

}  // namespace lynx::jinja
