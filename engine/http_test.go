package engine_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestPages(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--metrics-port", "0", "--namespace", "pages")
	if page := get(t, e.UIURL+"/"); !strings.Contains(page, "<html") {
		t.Errorf("the UI's page: %.200s", page)
	}
	if list := get(t, e.UIURL+"/api/v1/namespaces/pages"); !strings.Contains(list, `"pages"`) {
		t.Errorf("the UI does not reach the frontend: %.200s", list)
	}
	if list := get(t, "http://"+e.HTTPAddress+"/api/v1/namespaces/pages"); !strings.Contains(list, `"pages"`) {
		t.Errorf("the HTTP API: %.200s", list)
	}
	if text := get(t, e.MetricsURL); !strings.Contains(text, "service_requests") {
		t.Errorf("the metrics: %.200s", text)
	}

	// What the pages are told to do in the browser.
	var settings struct {
		DefaultNamespace   string
		DisableNewsFetch   bool
		NotifyOnNewVersion bool
	}
	if err := json.Unmarshal([]byte(get(t, e.UIURL+"/api/v1/settings")), &settings); err != nil {
		t.Fatal(err)
	}
	if settings.DefaultNamespace != "pages" || !settings.DisableNewsFetch || settings.NotifyOnNewVersion {
		t.Errorf("the UI's settings: %+v; want the namespace pages, no news and no look for new versions", settings)
	}
}

func TestHeadless(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--headless")
	if e.UIURL != "" || strings.Contains(e.stdout.String(), "\nui ") || e.MetricsURL != "" {
		t.Errorf("ui %q, metrics %q, stdout: %s", e.UIURL, e.MetricsURL, e.stdout)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	return string(body)
}
