package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	chat "github.com/wakepoint/wakepoint/examples/chat"
)

// service speaks chat completions as the providers do: what they refuse, it refuses, in
// their words. Its model says what a script says.
type service struct {
	*httptest.Server
	t testing.TB

	mu sync.Mutex
	// script are the answers to come, each a status of its own or a message.
	script []reply
	// told are the conversations that were answered, and when.
	told [][]chat.Message
	at   []time.Time
	// offered are the names of the functions of the last one.
	offered []string
}

// reply is one answer of the script.
type reply struct {
	status     int
	retryAfter string
	text       string
	finish     string
	calls      []chat.ToolCall
}

// call is a call in an answer.
func call(id, name, arguments string) chat.ToolCall {
	return chat.ToolCall{ID: id, Type: "function", Function: chat.FunctionCall{Name: name, Arguments: arguments}}
}

const (
	key   = "sk-of-the-test"
	model = "scripted-1"
)

func serve(t testing.TB, script ...reply) *service {
	t.Helper()
	s := &service{t: t, script: script}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) endpoint() *chat.Endpoint {
	return &chat.Endpoint{BaseURL: s.URL + "/v1/", Key: key, Model: model}
}

// ServeHTTP answers one request.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Content-Type") != "application/json" {
		fail(w, http.StatusNotFound, "Unknown request URL")
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+key {
		fail(w, http.StatusUnauthorized, "Incorrect API key provided")
		return
	}
	var req struct {
		Model    string         `json:"model"`
		Messages []chat.Message `json:"messages"`
		Tools    []struct {
			Type     string        `json:"type"`
			Function chat.Function `json:"function"`
		} `json:"tools"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil || req.Model != model {
		fail(w, http.StatusBadRequest, fmt.Sprintf("we could not parse the JSON body of your request: %v", err))
		return
	}
	s.offered = nil
	for _, tool := range req.Tools {
		if tool.Type != "function" || !nameRule.MatchString(tool.Function.Name) || len(tool.Function.Parameters) == 0 {
			fail(w, http.StatusBadRequest, fmt.Sprintf("Invalid 'tools': %+v", tool))
			return
		}
		s.offered = append(s.offered, tool.Function.Name)
	}
	if wrong := refuse(req.Messages); wrong != "" {
		s.t.Errorf("the conversation is refused: %s", wrong)
		fail(w, http.StatusBadRequest, wrong)
		return
	}
	s.told, s.at = append(s.told, req.Messages), append(s.at, time.Now())
	if len(s.script) == 0 {
		fail(w, http.StatusBadRequest, "the script is over")
		return
	}
	next := s.script[0]
	s.script = s.script[1:]
	s.reply(w, next)
}

func (s *service) reply(w http.ResponseWriter, r reply) {
	if r.status != 0 {
		if r.retryAfter != "" {
			w.Header().Set("Retry-After", r.retryAfter)
		}
		fail(w, r.status, "Rate limit reached or the server had an error")
		return
	}
	m := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
	if r.text != "" {
		m["content"] = r.text
	}
	finish := "stop"
	if len(r.calls) > 0 {
		m["tool_calls"], finish = r.calls, "tool_calls"
	}
	if r.finish != "" {
		finish = r.finish
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model + "-2026", "service_tier": "default",
		"choices": []any{map[string]any{"index": 0, "message": m, "finish_reason": finish, "logprobs": nil}},
		"usage": map[string]any{
			"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, "prompt_tokens_details": map[string]any{"cached_tokens": 40},
		},
	})
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "code": nil}})
}

// refuse says what a provider would have against a conversation.
func refuse(messages []chat.Message) string {
	if len(messages) == 0 {
		return "Invalid 'messages': empty array"
	}
	var open []string
	for i, m := range messages {
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Sprintf("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
				"The following tool_call_ids did not have response messages: %v", open)
		}
		switch m.Role {
		case "system", "user":
			if m.Content == nil || m.ToolCalls != nil || m.ToolCallID != "" {
				return fmt.Sprintf("Invalid 'messages[%d]': content is required, and nothing else", i)
			}
		case "assistant":
			if m.Content == nil && len(m.ToolCalls) == 0 {
				return fmt.Sprintf("Invalid 'messages[%d].content': expected a string, got null", i)
			}
			for _, c := range m.ToolCalls {
				// Only within a turn: Kimi gives list_dir:0 again in each.
				if c.ID == "" || c.Type != "function" || slices.Contains(open, c.ID) {
					return fmt.Sprintf("Invalid 'messages[%d].tool_calls'", i)
				}
				if !json.Valid([]byte(c.Function.Arguments)) {
					return fmt.Sprintf("Invalid 'messages[%d].tool_calls': arguments are no JSON", i) // vLLM
				}
				open = append(open, c.ID)
			}
		case "tool":
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"
			}
			if m.Content == nil {
				return fmt.Sprintf("Invalid 'messages[%d].content'", i)
			}
			open = slices.Delete(open, at, at+1)
		default:
			return fmt.Sprintf("Invalid value: '%s'", m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("The following tool_call_ids did not have response messages: %v", open)
	}
	return ""
}

// lines are a conversation as a test tells it: the role, and what was said or called.
func lines(messages []chat.Message) []string {
	var out []string
	for _, m := range messages {
		line := m.Role
		if m.ToolCallID != "" {
			line += " " + m.ToolCallID
		}
		if m.Content != nil {
			line += ": " + *m.Content
		}
		for _, c := range m.ToolCalls {
			line += " " + c.ID + "=" + c.Function.Name + c.Function.Arguments
		}
		out = append(out, line)
	}
	return out
}

// last are the lines of the newest conversation that was answered.
func (s *service) last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(s.t, s.told)
	return lines(s.told[len(s.told)-1])
}
