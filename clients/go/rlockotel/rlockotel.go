// Package rlockotel reports to OpenTelemetry what locks cost a program: how long it waits for them, how long it holds them,
// and how many it loses. It is a module of its own, so that only programs that use it depend on it.
//
// Lock names are no labels, as there may be millions of them.
package rlockotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlock/rlock/clients/go"
)

const scope = "github.com/rlock/rlock/clients/go/rlockotel"

type observer struct {
	tracer     trace.Tracer
	wait, hold metric.Float64Histogram
	losses     metric.Int64Counter
}

// New makes an observer for rlock.Options: a span for each wait and each hold, the histograms rlock.wait.duration and
// rlock.hold.duration, and the counter rlock.losses. Without providers it takes the global ones.
func New(tracers trace.TracerProvider, meters metric.MeterProvider) (rlock.Observer, error) {
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	meter := meters.Meter(scope)
	wait, err := meter.Float64Histogram("rlock.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("how long it took until a lock was held, or was not to be had"))
	if err != nil {
		return nil, err
	}
	hold, err := meter.Float64Histogram("rlock.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("how long a lock was held"))
	if err != nil {
		return nil, err
	}
	losses, err := meter.Int64Counter("rlock.losses", metric.WithUnit("{loss}"),
		metric.WithDescription("locks that were lost while they were held"))
	if err != nil {
		return nil, err
	}
	return &observer{tracers.Tracer(scope), wait, hold, losses}, nil
}

func (o *observer) Waited(ctx context.Context, kind, outcome string, began time.Time) {
	labels := []attribute.KeyValue{attribute.String("rlock.kind", kind), attribute.String("rlock.outcome", outcome)}
	o.wait.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(labels...))
	_, span := o.tracer.Start(ctx, "rlock.wait", trace.WithTimestamp(began), trace.WithAttributes(labels...))
	if outcome == "failed" {
		span.SetStatus(codes.Error, outcome)
	}
	span.End()
}

func (o *observer) Held(ctx context.Context, kind string, began time.Time) {
	label := attribute.String("rlock.kind", kind)
	o.hold.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(label))
	_, span := o.tracer.Start(ctx, "rlock.hold", trace.WithTimestamp(began), trace.WithAttributes(label))
	span.End()
}

func (o *observer) Lost(ctx context.Context, kind string) {
	o.losses.Add(ctx, 1, metric.WithAttributes(attribute.String("rlock.kind", kind)))
}
