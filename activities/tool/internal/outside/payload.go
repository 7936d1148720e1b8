package outside

import (
	"context"
	"encoding/json"
	"math"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/store"
)

const (
	// maxInline is how large a result may be to be handed over as it is, in bytes.
	maxInline = 64 << 10

	typeJSON = "application/json"
)

// Blobs is the part of the blob store that takes results. [store.Store] is one.
type Blobs interface {
	PutBytes(ctx context.Context, key store.Key, data []byte, contentType string) (store.Ref, error)
}

// Result makes a result of the payload that a job returned, after the client's codecs. JSON up to
// 64 KiB goes inline; anything else is stored, and what is no JSON keeps the name of its encoding
// as its content type. A job that returned nothing has the result null.
func Result(ctx context.Context, blobs Blobs, key store.Key, p *commonpb.Payload) (*tool.Result, error) {
	data, contentType := p.GetData(), string(p.GetMetadata()[converter.MetadataEncoding])
	switch contentType {
	case "", converter.MetadataEncodingNil:
		data, contentType = []byte("null"), typeJSON
	case converter.MetadataEncodingJSON, converter.MetadataEncodingProtoJSON:
		contentType = typeJSON
		if !json.Valid(data) {
			contentType = "application/octet-stream"
		}
	case converter.MetadataEncodingBinary:
		contentType = "application/octet-stream"
	}
	if contentType == typeJSON && len(data) <= maxInline {
		return &tool.Result{Inline: data, ContentType: typeJSON}, nil
	}
	ref, err := blobs.PutBytes(ctx, key, data, contentType)
	if err != nil {
		return nil, err
	}
	return &tool.Result{Ref: ref.Ref, Hash: ref.Hash, ContentType: ref.ContentType, Bytes: ref.Bytes}, nil
}

// Progress is how a job tells how far it is: in its heartbeat details, or as the answer to a
// query. Anything of another shape tells nothing.
type Progress struct {
	Percent *int
	Stage   string
}

// ReadProgress reads {"progress": 0..100, "stage": "…"}; either may be absent.
func ReadProgress(p *commonpb.Payload) Progress {
	var said struct {
		Progress *float64 `json:"progress"`
		Stage    string   `json:"stage"`
	}
	if p == nil || json.Unmarshal(p.GetData(), &said) != nil {
		return Progress{}
	}
	out := Progress{Stage: strings.TrimSpace(said.Stage)}
	if said.Progress != nil && *said.Progress >= 0 && *said.Progress <= 100 {
		whole := int(math.Floor(*said.Progress))
		out.Percent = &whole
	}
	return out
}
