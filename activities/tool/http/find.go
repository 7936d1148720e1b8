package http

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// Find asks FindURL for the job of a key. Without FindURL it always says no. An answer that cannot
// be read, or that names several jobs, is an error, and no no.
func (e *Executor) Find(ctx context.Context, submissionKey string) (tool.Handle, bool, error) {
	if e.urls.find == "" {
		return tool.Handle{}, false, nil
	}
	h, found, err := e.find(ctx, submissionKey)
	if err != nil {
		return tool.Handle{}, false, fmt.Errorf("find %q: %w", submissionKey, err)
	}
	return h, found, nil
}

func (e *Executor) find(ctx context.Context, key string) (tool.Handle, bool, error) {
	if err := checkID(key); err != nil {
		return tool.Handle{}, false, errors.New("the key is none")
	}
	u, err := fill(e.urls.find, placeKey, key)
	if err != nil {
		return tool.Handle{}, false, err
	}
	a, err := e.send(ctx, nethttp.MethodGet, u, nil, nil)
	if err != nil {
		return tool.Handle{}, false, err
	}
	defer a.close()
	d := handleData{SubmissionKey: key}
	switch lookRuleFor(a.StatusCode).find {
	case readBody:
	case readNone:
		return tool.Handle{}, false, nil
	case readThere:
		h, err := d.handle()
		return h, err == nil, err
	default:
		return tool.Handle{}, false, e.refused(a)
	}
	body, err := a.read(maxJob)
	if err != nil {
		return tool.Handle{}, false, fmt.Errorf("the job could not be read: %w", err)
	}
	j, found, err := e.pick(key, body, true)
	if err != nil {
		return tool.Handle{}, false, fmt.Errorf("the job that the service answered with %w", err)
	}
	if !found {
		return tool.Handle{}, false, nil
	}
	if checkID(j.id) == nil {
		d.JobID = j.id
	}
	if e.urls.status == "" || d.JobID == "" {
		// Where the job is, besides the search (RFC 9110, section 8.7). A place that is refused
		// leaves the search to look at it.
		d.URL, _ = e.given(a, u, "Location", "Content-Location")
	}
	h, err := d.handle()
	return h, err == nil, err
}

// List gives a page of the jobs that the service lists. The cursor is the URL of the page. A job
// without a key is somebody else's and is left out. Without ListURL it is an error.
func (e *Executor) List(ctx context.Context, cursor string) (tool.Listing, error) {
	listing, err := e.list(ctx, cursor)
	if err != nil {
		return tool.Listing{}, fmt.Errorf("list: %w", err)
	}
	return listing, nil
}

func (e *Executor) list(ctx context.Context, cursor string) (tool.Listing, error) {
	if e.urls.list == "" {
		return tool.Listing{}, errors.New("no list.url is declared")
	}
	u, err := url.Parse(e.urls.list)
	if err != nil {
		return tool.Listing{}, errors.New("list.url is no URL")
	}
	if cursor != "" {
		if u, err = resolve(u, cursor, e.urls.origins); err != nil {
			return tool.Listing{}, fmt.Errorf("the cursor %w", err)
		}
	}
	a, err := e.send(ctx, nethttp.MethodGet, u, nil, nil)
	if err != nil {
		return tool.Listing{}, err
	}
	defer a.close()
	switch lookRuleFor(a.StatusCode).list {
	case readBody:
	case readNone:
		return tool.Listing{}, nil
	default:
		return tool.Listing{}, e.refused(a)
	}
	body, err := a.read(maxJob)
	if err != nil {
		return tool.Listing{}, fmt.Errorf("the list could not be read: %w", err)
	}
	jobs, next, err := e.reader.parseList(body)
	if err != nil {
		return tool.Listing{}, fmt.Errorf("the list that the service answered with %w", err)
	}
	listing := tool.Listing{}
	if next != "" {
		following, err := resolve(u, next, e.urls.origins)
		if err != nil {
			return tool.Listing{}, fmt.Errorf("the URL of the next page %w", err)
		}
		if following.String() == u.String() {
			return tool.Listing{}, errors.New("the next page is the page itself")
		}
		listing.Next = following.String()
	}
	for _, j := range jobs {
		if j.key == "" {
			continue
		}
		d := handleData{SubmissionKey: j.key}
		if checkID(j.id) == nil {
			d.JobID = j.id
		}
		h, err := d.handle()
		if err != nil {
			return tool.Listing{}, err
		}
		listed := tool.Listed{Handle: h, SubmissionKey: j.key, State: j.state, StartedAtMs: j.startedAt}
		if listed.State == stateUnread {
			listed.State = tool.StateUnknown
		}
		listing.Jobs = append(listing.Jobs, listed)
	}
	return listing, nil
}
