"""Sources of rows: files, downloads, bundled tables, generators; read in bounded memory."""
