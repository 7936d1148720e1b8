package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/searchattribute/sadefs"
)

// ownAttributes are the search attributes that Wakepoint's workflows set; every namespace given to the engine has
// them. The names are those of workflows/protocol in the main module, which this module can't import.
var ownAttributes = map[string]enums.IndexedValueType{
	"WakepointTenant":   enums.INDEXED_VALUE_TYPE_KEYWORD,
	"WakepointRun":      enums.INDEXED_VALUE_TYPE_KEYWORD,
	"WakepointTool":     enums.INDEXED_VALUE_TYPE_KEYWORD,
	"WakepointToolCall": enums.INDEXED_VALUE_TYPE_KEYWORD,
	"WakepointState":    enums.INDEXED_VALUE_TYPE_KEYWORD,
}

// attributeTypes are the types that SQL visibility has columns for, in the order in which the help lists them.
var attributeTypes = []enums.IndexedValueType{
	enums.INDEXED_VALUE_TYPE_KEYWORD, enums.INDEXED_VALUE_TYPE_INT, enums.INDEXED_VALUE_TYPE_TEXT,
	enums.INDEXED_VALUE_TYPE_BOOL, enums.INDEXED_VALUE_TYPE_DOUBLE, enums.INDEXED_VALUE_TYPE_DATETIME,
	enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
}

var attributeName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

// parseSearchAttributes reads Name=Type values. Types are matched without regard to case, as upstream does.
func parseSearchAttributes(values []string) (map[string]enums.IndexedValueType, error) {
	out := make(map[string]enums.IndexedValueType, len(values))
	for _, kv := range values {
		name, typeName, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, usagef(hintStart, "--search-attribute %q is not Name=Type", kv)
		}
		if err := checkAttributeName(name); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(attributeTypes, func(t enums.IndexedValueType) bool { return strings.EqualFold(t.String(), typeName) })
		if i < 0 {
			return nil, usagef(hintStart, "--search-attribute %s: unknown type %q, allowed are %v", name, typeName, attributeTypes)
		}
		want := attributeTypes[i]
		for _, known := range []map[string]enums.IndexedValueType{ownAttributes, out} {
			if have, taken := known[name]; taken && have != want {
				return nil, usagef(hintStart, "--search-attribute %s=%s: it is a %s already", name, want, have)
			}
		}
		out[name] = want
	}
	if _, err := assignFields(nil, mergedAttributes(out)); err != nil {
		return nil, usagef(hintStart, "--search-attribute: %v", err)
	}
	return out, nil
}

func checkAttributeName(name string) error {
	if !attributeName.MatchString(name) {
		return usagef(hintStart, "--search-attribute %q: a name is letters, digits, dashes and underscores, at most 64, a letter first", name)
	}
	if sadefs.IsReserved(name) {
		return usagef(hintStart, "--search-attribute %q: the name belongs to the server", name)
	}
	if _, ok := customFields()[name]; ok {
		return usagef(hintStart, "--search-attribute %q: the name is one of a column", name)
	}
	return nil
}

// mergedAttributes adds Wakepoint's own attributes to the given ones.
func mergedAttributes(given map[string]enums.IndexedValueType) map[string]enums.IndexedValueType {
	out := maps.Clone(ownAttributes)
	maps.Copy(out, given)
	return out
}

// customFields are the columns that SQL visibility keeps for search attributes, with their types.
func customFields() map[string]enums.IndexedValueType {
	return sadefs.GetDBIndexSearchAttributes(nil).GetCustomSearchAttributes()
}

// assignFields gives each wanted attribute a column of its type and returns the whole mapping from column to name,
// together with have, the mapping so far, of which nothing moves: stored values are found by column. Names are
// taken in order and columns from the lowest, so that the same flags on new files give the same mapping.
func assignFields(have map[string]string, want map[string]enums.IndexedValueType) (map[string]string, error) {
	fields := customFields()
	out := make(map[string]string, len(have)+len(want))
	byName := make(map[string]string, len(have))
	for field, name := range have {
		out[field] = name
		byName[name] = field
	}
	ordered := slices.Sorted(maps.Keys(fields))
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if field, ok := byName[name]; ok {
			if fields[field] != want[name] {
				return nil, fmt.Errorf("search attribute %s is a %s in the existing files, not a %s", name, fields[field], want[name])
			}
			continue
		}
		i := slices.IndexFunc(ordered, func(field string) bool {
			_, used := out[field]
			return fields[field] == want[name] && !used
		})
		if i < 0 {
			return nil, fmt.Errorf("no room for search attribute %s: SQL visibility holds %d of type %s, Wakepoint's own included",
				name, countFields(fields, want[name]), want[name])
		}
		out[ordered[i]] = name
	}
	return out, nil
}

func countFields(fields map[string]enums.IndexedValueType, t enums.IndexedValueType) int {
	n := 0
	for _, ft := range fields {
		if ft == t {
			n++
		}
	}
	return n
}
