create table if not exists shipments (id bigint primary key, shipped_at timestamp not null);
