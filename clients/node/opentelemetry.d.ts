import type { MeterProvider, TracerProvider } from '@opentelemetry/api';

/** Reports spans and metrics of all clients in this thread, by default to the program's providers. Returns what ends it. */
export function instrument(providers?: { tracerProvider?: TracerProvider; meterProvider?: MeterProvider }): () => void;
