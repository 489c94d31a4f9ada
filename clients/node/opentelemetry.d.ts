import type { MeterProvider, TracerProvider } from '@opentelemetry/api';

/** Spans and metrics of all clients in this thread, from now on. Without providers, the program's own. Returns what ends it. */
export function instrument(providers?: { tracerProvider?: TracerProvider; meterProvider?: MeterProvider }): () => void;
